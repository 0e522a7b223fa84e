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

-- 95 % confidence intervals of the factors in loss_efficiency, with the columns of factor_intervals.
create table if not exists loss_intervals (
    study_id varchar not null,
    depth integer,
    variant varchar not null,
    task varchar not null,
    rule varchar not null, -- 'first' as in loss_efficiency, 'interpolated' with the crossing interpolated in log tokens
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

comment on table factor_intervals is '95 % intervals of the data-efficiency factors, by paired bootstrap';
comment on table mean_factor_intervals is '95 % intervals of the mean factors, over seeds and items';
comment on table loss_intervals is '95 % intervals of the factors to LA''s lowest loss, by paired bootstrap';
