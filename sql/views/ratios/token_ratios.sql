-- One row: a model and metric (accuracy, loss) of a task: how many times as many tokens as the baseline. The answer of a study.
-- Below 1 the model needs fewer tokens than the baseline to the same score. docs/statistics.md has the definition.
create or replace view token_ratios as
select
    study_id,
    depth,
    variant,
    baseline, -- whose tokens the ratio is over
    task, -- name of the benchmark; 'average' over benchmarks and 'validation' for held-out documents
    metric, -- 'accuracy', or 'loss' in bits per byte
    score_low, -- lower end of the scores that the ratio is over: the upper fifth of the common range, or a score fixed in advance
    score_high, -- upper end of these scores; of losses the end that is the worse one
    ratio, -- tokens of the variant over those of the baseline to the same scores; null where the curves have no scores in common
    low, -- lower end of the 95 % interval, over seeds and items; without a ratio a lower bound ('at least'); null with one seed
    high, -- upper end of the 95 % interval; without a ratio an upper bound ('at most')
    factor, -- one over the ratio: the data efficiency of the paper
    at_least, -- lower bound on the ratio at the baseline's own best: the last token counts for what the variant never reached
    reached, -- false where the variant's best is below the baseline's by more than two standard errors of the difference
    significant, -- after Holm's correction, and more than a checkpoint apart; null for single tasks and with one seed
    p_adjusted, -- after Holm's correction over the study's averages and held-out losses; null for single tasks
    depends_on, -- families of tasks without any one of which the average would not be significant, or the other way
    seeds, -- number of seeds: the smaller one of the two models
    detectable, -- smallest ratio above 1 that four of five studies with such errors distinguish from 1; null with one seed
    in_advance, -- whether the score was fixed in advance (evaluation.target)
    near_chance, -- whether a model never rose above chance by two standard errors: then there is no ratio; null: chance is unknown
    within_checkpoint, -- whether the models are less than one checkpoint apart: no finding
    before_decay, -- whether the scores were reached before the learning rate decays
    decay_bound, -- where a score was reached while the rate decays: whether the true ratio is 'at most' or 'at least' this one
    one_task, -- whether the average is of one task
    cut_short, -- whether a run of the two models ended early, so that the curve is shorter than others of its model
    tuned, -- whether the study has chosen the variant's learning rate by a search
    comparisons, -- number of tests that p_adjusted is corrected over
    outdated -- whether results changed after the ratio was computed: `dreamer intervals` computes the ratio again
from token_ratios_against(null);
