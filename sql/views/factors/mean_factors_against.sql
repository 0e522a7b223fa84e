-- One row: a model and metric (accuracy, loss) of a task, with its mean factor against a baseline of its depth.
--     from mean_factors_against('DR')
-- A baseline null is the study's own. Factors are computed from all points at once (sql/statistics/mean_factors.py).
-- `outdated` where both models have a curve and the points are not those that a factor was computed from: the factor and
-- its interval are null until `dreamer intervals` computes them again.
create or replace macro mean_factors_against(baseline_variant) as table
with curves as (
    from internal.measured_curves -- named, so that DuckDB computes the curves once
),

pairs as (
    select
        own.study_id, own.depth, own.variant, own.task,
        own.metric,
        least(own.seeds, baseline.seeds) as seeds,
        greatest(own.stderr, baseline.stderr) as stderr, -- the largest of both curves
        greatest(own.chance, baseline.chance) as chance,
        computed.* exclude (study_id, depth, variant, task, metric, seeds),
        -- Those that the study is read for, and whose p-values are corrected together, by Holm's method.
        computed.p is not null and (
            own.task in ('average', 'validation') or count(distinct own.task) over (partition by own.study_id) = 1
        ) as headline
    from curves as own
    join internal.variants using (study_id, variant)
    join curves as baseline
        on baseline.study_id = own.study_id
        and (baseline.depth, baseline.task, baseline.metric) is not distinct from (own.depth, own.task, own.metric)
        and baseline.variant = coalesce(baseline_variant, variants.baseline)
    left join internal.computed_factors as computed
        on computed.digest = own.digest || baseline.digest
        and (computed.study_id, computed.depth, computed.variant, computed.baseline, computed.task, computed.metric)
            is not distinct from (own.study_id, own.depth, own.variant, baseline.variant, own.task, own.metric)
),

ranked as (
    select
        *,
        case when headline then count(*) over (partition by study_id, headline) end as comparisons,
        row_number() over (partition by study_id, headline order by p, depth, variant, task, metric) as rank
    from pairs
),

corrected as (
    select *, max(p * (comparisons + 1 - rank)) over (partition by study_id, headline order by rank) as adjusted_p
    from ranked
)

select
    expected.study_id, expected.depth, expected.variant, expected.task,
    expected.measure as metric,
    factors.* exclude (
        study_id, depth, variant, task, metric, baseline, bounded, stderr, chance, headline, rank, adjusted_p, digest
    ),
    -- Whether the baseline's range is hardly more than noise: it rises by less than two standard errors, or no higher
    -- above chance. False for unknown errors, so that `where not within_noise` loses no rows.
    coalesce(
        greatest(factors.range_high, factors.missed_high) - least(factors.range_low, factors.missed_low)
        < 2 * factors.stderr
        or (
            expected.measure = 'accuracy'
            and greatest(factors.range_high, factors.missed_high) <= factors.chance + 2 * factors.stderr
        ),
        false
    ) as within_noise,
    factors.seeds is not null and factors.digest is null as outdated,
    coalesce(baseline_variant, expected.baseline) as baseline,
    expected.place,
    coalesce(factors.bounded, false) as bounded,
    factors.p < 0.05 and not within_noise as decided,
    factors.adjusted_p < 0.05 and not within_noise as decided_adjusted,
    case
        when expected.task = 'average' and factors.p < 0.05 and not within_noise then (
            select string_agg(others.left_out, ', ' order by others.left_out)
            from internal.factors_without as others
            where (others.study_id, others.depth, others.variant, others.metric, others.baseline)
                    is not distinct from (factors.study_id, factors.depth, factors.variant, factors.metric, factors.baseline)
                and others.digest = factors.digest
                and not (
                    others.decided
                    and (others.factor > 1) = (case when factors.bounded then factors.bound else factors.factor end > 1)
                )
        )
    end as hangs_on
from internal.expected_curves as expected
left join corrected as factors
    on (factors.study_id, factors.depth, factors.variant, factors.task, factors.metric)
        is not distinct from (expected.study_id, expected.depth, expected.variant, expected.task, expected.measure)
order by
    expected.study_id, expected.depth, expected.place, expected.task = 'average', expected.task, expected.measure;
