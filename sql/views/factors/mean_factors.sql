-- One row: a model and metric (accuracy, loss) of a task, with its mean factor against the baseline and its interval.
-- How many times fewer tokens than the baseline to the same accuracy or loss, on the geometric mean over all that both
-- curves cover.
create or replace view mean_factors as
select
    study_id,
    depth,
    variant,
    task, -- name of the benchmark; 'average' over benchmarks and 'validation' for held-out documents
    metric, -- 'accuracy', or 'loss' in bits per byte
    factor, -- tokens of the baseline over tokens of the variant; null after a change until `dreamer intervals`
    low, -- lower end of the 95 % interval, over seeds and items; null with one seed
    high, -- upper end of the 95 % interval
    seeds, -- number of seeds: the smaller one of the two models
    covered, -- share of the baseline's range that both curves cover; below 0.9 the bound is the headline
    bound, -- upper bound on the factor over the baseline's whole range: the last token counts for what was never reached
    bound_low, -- lower end of the 95 % interval of the bound
    bound_high, -- upper end of the 95 % interval of the bound
    p, -- of the factor against 1, or of the bound where less than 0.9 is covered; null with one seed
    decided, -- whether p is below 0.05 and the baseline's range is more than noise: 1 lies outside the interval
    decided_adjusted, -- decided after Holm's correction over the study's averages and held-out losses; null elsewhere
    comparisons, -- number of those
    hangs_on, -- families of tasks without any one of which the average would not be decided, or the other way; null where there is none
    detectable -- smallest factor above 1 that four of five studies with such errors tell from 1; null with one seed
from mean_factors_against(null);
