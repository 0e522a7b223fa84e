-- One row: a model and metric (accuracy, loss) of a task, with the mean token ratio over all scores in common.
-- This is a second number, in which points before a decay of the learning rate weigh most. The view
-- `token_ratios` has the answer.
create or replace view mean_factors as
select
    study_id,
    depth,
    variant,
    task, -- name of the benchmark; 'average' over benchmarks and 'validation' for held-out documents
    metric, -- 'accuracy', or 'loss' in bits per byte
    ratio, -- tokens of the variant / tokens of the baseline; null if results have changed: run `dreamer intervals`
    ratio_low, -- lower end of the 95 % interval of the ratio, over seeds and items; null with one seed
    ratio_high, -- upper end of the 95 % interval of the ratio
    factor, -- 1 / ratio
    low, -- lower end of the 95 % interval of the factor
    high, -- upper end of the 95 % interval of the factor
    range_low, -- lower end of the scores that both curves cover
    range_high, -- upper end of the scores that both curves cover
    seeds -- number of seeds, the smaller one of both models
from mean_factors_against(null);
