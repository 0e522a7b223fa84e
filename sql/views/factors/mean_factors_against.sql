-- One row: a model and metric (accuracy, loss) of a task, with its mean factor against a baseline of its depth.
--     from mean_factors_against('DR')
-- A null baseline stands for the study's own. Factors are computed from all points at once
-- (sql/statistics/mean_factors.py). `outdated` is true if both models have a curve and their points have changed since the
-- factor was computed. The factor and its interval are then null until `dreamer intervals` computes them again.
create or replace macro mean_factors_against(baseline_variant) as table
with curves as (
    from internal.measured_curves -- a named query, which DuckDB computes once
),

pairs as (
    select
        own.study_id, own.depth, own.variant, own.task,
        own.metric,
        least(own.seeds, baseline.seeds) as seeds,
        computed.mean_factor,
        computed.mean_factor_low,
        computed.mean_factor_high,
        computed.range_low,
        computed.range_high,
        computed.target_halves,
        computed.digest
    from curves as own
    join internal.variants using (study_id, variant)
    join curves as baseline
        on baseline.study_id = own.study_id
        and (baseline.depth, baseline.task, baseline.metric) is not distinct from (own.depth, own.task, own.metric)
        and baseline.variant = coalesce(baseline_variant, variants.baseline)
    left join internal.computed_ratios as computed
        on computed.digest = own.digest || baseline.digest
        and (computed.study_id, computed.depth, computed.variant, computed.baseline, computed.task, computed.metric)
            is not distinct from (own.study_id, own.depth, own.variant, baseline.variant, own.task, own.metric)
)

select
    expected.study_id, expected.depth, expected.variant, expected.task,
    expected.measure as metric,
    1 / factors.mean_factor as ratio,
    1 / factors.mean_factor_high as ratio_low,
    1 / factors.mean_factor_low as ratio_high,
    factors.mean_factor as factor,
    factors.mean_factor_low as low,
    factors.mean_factor_high as high,
    factors.range_low,
    factors.range_high,
    factors.seeds,
    factors.target_halves,
    factors.seeds is not null and factors.digest is null as outdated,
    coalesce(baseline_variant, expected.baseline) as baseline,
    expected.place
from internal.expected_curves as expected
left join pairs as factors
    on (factors.study_id, factors.depth, factors.variant, factors.task, factors.metric)
        is not distinct from (expected.study_id, expected.depth, expected.variant, expected.task, expected.measure)
order by
    expected.study_id, expected.depth, expected.place, expected.task = 'average', expected.task, expected.measure;
