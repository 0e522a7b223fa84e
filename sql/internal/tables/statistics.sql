-- Made by sql/statistics/compute.py. The views show a row while the curves have the points that the row was made from
-- (docs/statistics.md). The interval, on the logarithmic scale, has the t quantile of the degrees of freedom times both
-- errors together.
create table if not exists internal.computed_ratios ( -- One row: the tokens of a variant over those of a baseline.
    study_id varchar not null,
    depth integer,
    variant varchar not null,
    baseline varchar not null,
    task varchar not null, -- also 'average without ' and a family of tasks
    metric varchar not null, -- 'accuracy' or 'loss'
    ratio double, -- over the upper fifth of the common range; null where the curves have none
    low double, -- null where a model has one seed, which cannot show what seeds differ by; else a one-sided bound
    high double,
    score_low double, -- the accuracies, or losses, that the ratio is over; of losses the best one is the low one
    score_high double,
    target double, -- the score fixed in advance that the ratio is at; null for the common range
    at_least double, -- lower bound on the ratio at the baseline's best: the last token counts for what was never reached
    at_least_low double, -- its 95 % interval
    at_least_high double,
    reached boolean, -- whether the variant's best is not below the baseline's by more than two standard errors
    degrees_of_freedom double,
    seed_error double, -- standard error of the log ratio from the spread of the seeds
    item_error double, -- and from the choice of the items; null where the scores of items are unknown
    p double, -- of the ratio against 1; null with one seed
    detectable double, -- the smallest ratio above 1 that four of five studies with such errors distinguish from 1
    checkpoint_distance double, -- of successive evaluations of the coarser curve within the range, in log tokens
    variant_tokens double, -- to the best score of the range
    baseline_tokens double,
    mean_factor double, -- tokens of the baseline over the variant's, on the mean over all that both curves cover
    mean_factor_low double, -- its 95 % interval
    mean_factor_high double,
    range_low double, -- the accuracies, or losses, that both curves cover
    range_high double,
    target_halves double[], -- half the width of the 95 % interval of the log factor at each target, from the lowest score
    seeds bigint, -- of `variant`
    baseline_seeds bigint,
    replicates bigint, -- of the items
    digest varchar not null -- of the points of both curves (measured_curves)
);
