-- The tables that sql/statistics computes (docs/statistics.md).

-- 95 % confidence intervals of the data-efficiency factors.
create table if not exists factor_intervals (
    study_id varchar not null,
    depth integer,
    variant varchar not null,
    task varchar not null,
    rule varchar not null, -- 'first' as in data_efficiency, 'interpolated' as in data_efficiency_interpolated
    low double, -- 0: in too many replicates the variant never reaches the goal, so nothing limits the factor from below
    high double, -- infinity: in too many replicates its first checkpoint has the goal, so nothing limits it from above
    share_reached double, -- of the replicates, the share in which the variant reaches the goal
    replicates bigint,
    seed bigint,
    goal_first bigint, -- the earliest checkpoint that may be LA's best
    goal_last bigint -- the latest one: far apart on a plateau, where the factor is hardly defined
);

-- 95 % confidence intervals of the mean factors, on the logarithmic scale. The interval has the t quantile of the degrees
-- of freedom times both errors together; null where a model has one seed, which cannot show what seeds differ by.
create table if not exists mean_factor_intervals (
    study_id varchar not null,
    depth integer,
    variant varchar not null,
    task varchar not null,
    metric varchar not null, -- 'accuracy' or 'loss'
    low double,
    high double,
    seeds bigint, -- the smaller number of the two models
    degrees_of_freedom double,
    seed_error double, -- standard error of the log factor from the spread of the seeds
    item_error double, -- and from the choice of the items; null where the scores of items are unknown
    replicates bigint -- of the items
);

-- A saturating power law through the checkpoints of every model and task (macro curve_value):
--     accuracy(tokens) = ceiling - (ceiling - floor) / (1 + (tokens / scale) ^ exponent)
create table if not exists fitted_curves (
    study_id varchar not null,
    depth integer,
    variant varchar not null,
    task varchar not null,
    status varchar not null, -- 'fitted'; else why there are no parameters: 'too few points', 'near chance', 'flat'
    floor double, -- accuracy before training: between 0 and chance
    ceiling double, -- accuracy after endless training: an extrapolation unless the curve bends
    scale double, -- tokens at half the rise
    exponent double,
    residual double, -- root mean square of the checkpoints' distances from the curve
    misfit double, -- mean squared distance over the sampling variance of the items: above 1, training is noisy
    points bigint, -- checkpoints
    first_tokens bigint,
    last_tokens bigint,
    replicates bigint, -- rows in fitted_replicates
    seed bigint
);

-- The power laws fitted to each bootstrap replicate: the spread of a number over these rows gives its interval. One
-- replicate draws the same items for all models of a task.
create table if not exists fitted_replicates (
    study_id varchar not null,
    depth integer,
    variant varchar not null,
    task varchar not null,
    replicate integer not null,
    floor double,
    ceiling double,
    scale double,
    exponent double
);

comment on table factor_intervals is '95 % intervals of the data-efficiency factors, by paired bootstrap';
comment on table mean_factor_intervals is '95 % intervals of the mean factors, over seeds and items';
comment on table fitted_curves is 'Smooth curve through the checkpoints of every model and task';
comment on table fitted_replicates is 'The same curve for each draw of the items';
