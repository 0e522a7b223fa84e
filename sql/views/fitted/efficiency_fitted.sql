-- One row: a model and task, with its data-efficiency factor read off the fitted power laws.
-- needs: curve_tokens, curve_value, data_efficiency, variant_order
--     from efficiency_fitted('LA', 0.95)
-- The goal is a share of the baseline's rise: from its floor to the value of its curve at its last checkpoint. With a
-- share below 1 the tokens to the goal are defined on a plateau too. Nothing is extrapolated: a crossing after the
-- variant's last checkpoint is 'at most', one before its first checkpoint 'at least'. Intervals are over
-- fitted_replicates, goal and crossings anew in each; a low end of 0 or a high end of infinity is open.
create or replace macro efficiency_fitted(baseline_variant, share) as table
with curves as (
    select study_id, depth, variant, task, 0 as replicate, floor, ceiling, scale, exponent from fitted_curves
    union all by name
    select * from fitted_replicates
),

ranges as (
    select curves.*, fits.first_tokens, fits.last_tokens
    from curves
    join fitted_curves as fits
        on fits.study_id = curves.study_id
        and fits.depth is not distinct from curves.depth
        and fits.variant = curves.variant
        and fits.task = curves.task
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
        own.*,
        goals.target,
        goals.tokens as baseline_tokens,
        curve_tokens(goals.target, own.floor, own.ceiling, own.scale, own.exponent) as tokens
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
        study_id, depth, variant, task,
        quantile_disc(case when bound = 'at most' then 0 else factor end, 0.025) as low,
        quantile_disc(case when bound = 'at least' then 'infinity' else factor end, 0.975) as high
    from factors
    where replicate > 0
    group by study_id, depth, variant, task
)

-- Every row of data_efficiency: a model without a fitted curve has a row without a factor.
select
    expected.study_id, expected.depth, expected.variant, expected.task,
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
    and (factors.depth, factors.variant, factors.task)
        is not distinct from (expected.depth, expected.variant, expected.task)
    and factors.replicate = 0
left join intervals
    on intervals.study_id = expected.study_id
    and (intervals.depth, intervals.variant, intervals.task)
        is not distinct from (expected.depth, expected.variant, expected.task)
order by study_id, depth, variant_order(expected.variant), variant, expected.task = 'average', task;

comment on macro table efficiency_fitted is
    'efficiency_fitted(variant, share): factors to a share of that variant''s rise, read off the fitted curves';
