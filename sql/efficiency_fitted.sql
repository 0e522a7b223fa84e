-- The data-efficiency factors read off the fitted curves, where one checkpoint's luck decides neither goal nor crossing.
--     from efficiency_fitted('LA', 0.95)
-- The goal is a share of the baseline's rise: from its floor to what its curve has at its last checkpoint. Both numbers
-- of tokens are read off the curves. With the whole rise as the goal (share 1) a baseline that has stopped rising would
-- have no defined number of tokens; a little below it is well defined on a plateau too.
-- As in data_efficiency nothing is extrapolated: a crossing after the variant's last checkpoint is 'at most', one before
-- its first 'at least'. Intervals are over fitted_replicates, goal and crossings anew in each: a low end of 0 or a high
-- end of infinity says that the study does not limit the factor on that side.
create or replace macro efficiency_fitted(baseline_variant, share) as table
with curves as (
    select study_id, depth, variant, task, 0 as replicate, floor, ceiling, scale, exponent from fitted_curves
    union all
    select study_id, depth, variant, task, replicate, floor, ceiling, scale, exponent from fitted_replicates
),

-- Replicate 0 is the curve itself.
ranges as (
    select curves.*, fitted_curves.first_tokens, fitted_curves.last_tokens
    from curves
    join fitted_curves
        on fitted_curves.study_id = curves.study_id
        and fitted_curves.depth is not distinct from curves.depth
        and fitted_curves.variant = curves.variant
        and fitted_curves.task = curves.task
),

goals as (
    select
        *,
        floor + share * (curve_value(last_tokens, floor, ceiling, scale, exponent) - floor) as target,
        greatest(first_tokens, curve_tokens(target, floor, ceiling, scale, exponent)) as tokens
    from ranges
    where variant = baseline_variant
),

crossings as (
    select
        own.study_id,
        own.depth,
        own.variant,
        own.task,
        own.replicate,
        goals.target,
        goals.tokens as baseline_tokens,
        curve_tokens(goals.target, own.floor, own.ceiling, own.scale, own.exponent) as tokens,
        own.first_tokens,
        own.last_tokens
    from ranges as own
    join goals
        on goals.study_id = own.study_id
        and goals.depth is not distinct from own.depth
        and goals.task = own.task
        and goals.replicate = own.replicate
    where goals.target is not null and own.floor is not null
),

factors as (
    select
        *,
        baseline_tokens / greatest(first_tokens, least(last_tokens, tokens)) as factor,
        -- The baseline reaches its own goal in its last checkpoint at the latest, rounding aside.
        case
            when variant <> baseline_variant and tokens > last_tokens then 'at most'
            when tokens < first_tokens then 'at least'
            else 'exact'
        end as bound
    from crossings
),

intervals as (
    select
        study_id,
        depth,
        variant,
        task,
        quantile_disc(case when bound = 'at most' then 0 else factor end, 0.025) as low,
        quantile_disc(case when bound = 'at least' then 'infinity' else factor end, 0.975) as high
    from factors
    where replicate > 0
    group by study_id, depth, variant, task
)

-- A row for every row of data_efficiency: what could not be fitted is a row without a factor.
select
    expected.study_id,
    expected.depth,
    expected.variant,
    expected.task,
    factors.target,
    factors.baseline_tokens,
    case when factors.bound <> 'at most' then greatest(factors.first_tokens, factors.tokens) end as variant_tokens,
    factors.factor,
    factors.bound,
    case when expected.variant = baseline_variant then factors.factor else intervals.low end as low,
    case when expected.variant = baseline_variant then factors.factor else intervals.high end as high,
    expected.near_chance
from data_efficiency as expected
left join factors
    on factors.study_id = expected.study_id
    and factors.depth is not distinct from expected.depth
    and factors.variant = expected.variant
    and factors.task = expected.task
    and factors.replicate = 0
left join intervals
    on intervals.study_id = expected.study_id
    and intervals.depth is not distinct from expected.depth
    and intervals.variant = expected.variant
    and intervals.task = expected.task
order by
    expected.study_id,
    expected.depth,
    variant_order(expected.variant),
    expected.variant,
    expected.task = 'average',
    expected.task;

comment on macro table efficiency_fitted is
    'efficiency_fitted(variant, share): factors to a share of that variant''s rise, read off the fitted curves';
