-- One row: a model and metric (accuracy, loss) of a task, with its token ratio: the answer of a study.
-- Below 1, the model needs fewer tokens than the baseline to reach the same score. docs/statistics.md defines the ratio.
create or replace view token_ratios as
select
    study_id,
    depth,
    variant,
    baseline, -- variant whose tokens the ratio divides by
    task, -- name of the benchmark; 'average' over benchmarks and 'validation' for held-out documents
    metric, -- 'accuracy', or 'loss' in bits per byte
    score_low, -- lower end of the compared scores: the upper fifth of the common range, or a score fixed in advance
    score_high, -- upper end of the compared scores; a loss is worse at this end
    ratio, -- tokens of the variant / tokens of the baseline, at equal scores; null: no score in common
    low, -- lower end of the 95 % interval over seeds and items; without a ratio, a lower bound; null with one seed
    high, -- upper end of the 95 % interval; without a ratio, an upper bound; null with one seed
    factor, -- 1 / ratio, which the paper calls data efficiency
    at_least, -- lower bound on the ratio at the baseline's best; a score never reached counts with all tokens
    reached, -- false if the variant's best is below the baseline's by more than two standard errors of the difference
    significant, -- p_adjusted is below 0.05 and the curves are a checkpoint apart; null for single tasks and with one seed
    p_adjusted, -- p-value after Holm's correction over the study's averages and held-out losses; null for single tasks
    depends_on, -- families of tasks without any one of which the average is not significant, or changes sides
    seeds, -- number of seeds, the smaller one of both models
    detectable, -- smallest ratio above 1 that four of five such studies distinguish from 1; null with one seed
    in_advance, -- whether the score was fixed in advance (evaluation.target)
    near_chance, -- whether a model never rose two standard errors above chance, so that there is no ratio; null: unknown
    within_checkpoint, -- whether the curves are less than one checkpoint apart, so that the ratio is not a finding
    before_decay, -- whether both models reach these scores before their learning rate decays
    decay_bound, -- if a score is reached while the learning rate decays: the true ratio is 'at most' or 'at least' this one
    one_task, -- whether the average is over one task only
    cut_short, -- whether a run of the two models ended early, which shortens the curve
    tuned, -- whether the study searched the variant's learning rate
    comparisons, -- number of tests that p_adjusted corrects for
    outdated -- whether results have changed since the ratio was computed; `dreamer intervals` computes it again
from token_ratios_against(null);
