-- One row: a model and metric (accuracy, loss) of a task, with the mean ratio of tokens over all scores that both curves cover.
-- A second number: points before a decay of the learning rate weigh in it most. The answer is the view `token_ratios`.
create or replace view mean_factors as
select
    study_id,
    depth,
    variant,
    task, -- name of the benchmark; 'average' over benchmarks and 'validation' for held-out documents
    metric, -- 'accuracy', or 'loss' in bits per byte
    ratio, -- tokens of the variant over tokens of the baseline; null after a change until `dreamer intervals`
    ratio_low, -- lower end of the 95 % interval of the ratio, over seeds and items; null with one seed
    ratio_high, -- upper end of the 95 % interval of the ratio
    factor, -- tokens of the baseline over tokens of the variant: one over the ratio
    low, -- lower end of the 95 % interval of the factor
    high, -- upper end of the 95 % interval of the factor
    range_low, -- lower end of the scores that both curves cover
    range_high, -- upper end of the scores that both curves cover
    seeds -- number of seeds: the smaller one of the two models
from mean_factors_against(null);
