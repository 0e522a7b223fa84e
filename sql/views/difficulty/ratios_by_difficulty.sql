-- One row: a model and a third of a task's items (easy, middle, hard), with its token ratio in accuracy.
-- `dreamer items` computes the rows. The ratio is that of token_ratios, on these items alone.
create or replace view ratios_by_difficulty as
select
    ratios.study_id,
    ratios.depth,
    ratios.variant,
    ratios.baseline, -- variant whose tokens the ratio divides by
    ratios.task, -- name of the benchmark; 'average' over benchmarks
    ratios.difficulty, -- easy, middle or hard: thirds of the task's items by the learning time of all runs together
    ratios.items, -- number of items
    ratios.score_low, -- lower end of the compared accuracies
    ratios.score_high, -- upper end of the compared accuracies
    ratios.ratio, -- tokens of the variant / tokens of the baseline, at equal accuracy; null: no accuracy in common
    ratios.low, -- lower end of the 95 % interval over seeds and items; without a ratio, a lower bound; null with one seed
    ratios.high, -- upper end of the 95 % interval; without a ratio, an upper bound; null with one seed
    ratios.at_least, -- lower bound on the ratio at the baseline's best on these items
    ratios.reached, -- false if the variant's best is below the baseline's by more than two standard errors
    least(ratios.seeds, ratios.baseline_seeds) as seeds, -- number of seeds, the smaller one of both models
    own.digest || against.digest is distinct from ratios.digest as outdated -- whether results have changed since
from internal.computed_difficulties as ratios
left join internal.measured_curves as own
    on own.metric = 'accuracy'
        and (own.study_id, own.depth, own.variant, own.task)
            is not distinct from (ratios.study_id, ratios.depth, ratios.variant, ratios.task)
left join internal.measured_curves as against
    on against.metric = 'accuracy'
        and (against.study_id, against.depth, against.variant, against.task)
            is not distinct from (ratios.study_id, ratios.depth, ratios.baseline, ratios.task);
