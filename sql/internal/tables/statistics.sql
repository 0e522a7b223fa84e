-- Made by sql/statistics/compute.py. The views show a row while the curves have the points that the row was made from
-- (docs/statistics.md). The interval, on the logarithmic scale, has the t quantile of the degrees of freedom times both
-- errors together.
create table if not exists internal.computed_factors ( -- One row: the mean factor of two variants, with 95 % interval.
    study_id varchar not null,
    depth integer,
    variant varchar not null,
    baseline varchar not null, -- whose tokens are over those of `variant`
    task varchar not null, -- also 'average without ' and a family of tasks
    metric varchar not null, -- 'accuracy' or 'loss'
    factor double, -- null where the curves have no accuracy, or loss, in common
    low double, -- null where a model has one seed, which cannot show what seeds differ by
    high double,
    range_low double, -- the accuracies, or losses, that both curves cover
    range_high double,
    seeds bigint, -- of `variant`
    baseline_seeds bigint,
    degrees_of_freedom double,
    seed_error double, -- standard error of the log factor from the spread of the seeds
    item_error double, -- and from the choice of the items; null where the scores of items are unknown
    replicates bigint, -- of the items
    digest varchar not null, -- of the points of both curves (measured_curves)
    covered double, -- share of the baseline's range, from where both curves start to its best, that both cover
    missed_low double, -- what of the baseline's range the variant never reached; null where nothing
    missed_high double,
    bound double, -- of the factor over the baseline's whole range, from above: the last token counts for what was missed
    bound_low double, -- its 95 % interval
    bound_high double,
    target_halves double[], -- half the width of the 95 % interval of the log factor at each target, from the lowest score
    bounded boolean, -- whether so little is covered that the bound says more than the factor
    p double, -- of the factor against 1, or of the bound where `bounded`; null with one seed
    detectable double -- the smallest factor above 1 that four of five studies with such errors tell from 1
);
