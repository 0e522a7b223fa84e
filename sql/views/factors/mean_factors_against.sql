-- One row: a model and metric (accuracy, loss) of a task, with its mean factor against a baseline of its depth.
--     from mean_factors_against('DR')
-- A baseline null is the study's own. Factors are computed from all points at once (sql/statistics/mean_factors.py).
-- `outdated` where both models have a curve and the points are not those that a factor was computed from: the factor and
-- its interval are null until `dreamer intervals` computes them again.
create or replace macro mean_factors_against(baseline_variant) as table
with pairs as (
    select
        own.study_id, own.depth, own.variant, own.task,
        own.metric,
        least(own.seeds, baseline.seeds) as seeds,
        greatest(own.stderr, baseline.stderr) as stderr, -- the largest of both curves
        greatest(own.chance, baseline.chance) as chance,
        own.digest || baseline.digest as digest,
        baseline.variant as baseline
    from internal.measured_curves as own
    join internal.variants using (study_id, variant)
    join internal.measured_curves as baseline
        on baseline.study_id = own.study_id
        and (baseline.depth, baseline.task, baseline.metric) is not distinct from (own.depth, own.task, own.metric)
    where baseline.variant = coalesce(baseline_variant, variants.baseline)
),

-- Those that the study is read for, and whose p-values are corrected together, by Holm's method.
headline as (
    select
        pairs.study_id, pairs.depth, pairs.variant, pairs.task, pairs.metric,
        computed.p,
        count(*) over (partition by pairs.study_id) as comparisons,
        row_number() over (
            partition by pairs.study_id order by computed.p, pairs.depth, pairs.variant, pairs.task, pairs.metric
        ) as rank
    from pairs
    join internal.computed_factors as computed using (study_id, variant, task, metric, digest)
    where computed.depth is not distinct from pairs.depth
        and computed.baseline = pairs.baseline
        and computed.p is not null
        and computed.task in ('average', 'validation')
),

corrected as (
    select
        * exclude (p, rank),
        max(p * (comparisons + 1 - rank)) over (partition by study_id order by rank) as adjusted_p
    from headline
)

select
    expected.study_id, expected.depth, expected.variant, expected.task,
    expected.measure as metric,
    computed.factor,
    computed.low,
    computed.high,
    pairs.seeds,
    computed.item_error,
    computed.range_low,
    computed.range_high,
    -- Whether the baseline's range is hardly more than noise: it rises by less than two standard errors, or no higher
    -- above chance. False for unknown errors, so that `where not within_noise` loses no rows.
    coalesce(
        greatest(computed.range_high, computed.missed_high) - least(computed.range_low, computed.missed_low)
        < 2 * pairs.stderr
        or (
            expected.measure = 'accuracy'
            and greatest(computed.range_high, computed.missed_high) <= pairs.chance + 2 * pairs.stderr
        ),
        false
    ) as within_noise,
    pairs.digest is not null and computed.digest is null as outdated,
    coalesce(baseline_variant, expected.baseline) as baseline,
    expected.place,
    computed.covered,
    computed.missed_low,
    computed.missed_high,
    computed.bound,
    computed.bound_low,
    computed.bound_high,
    coalesce(computed.bounded, false) as bounded,
    computed.target_halves,
    computed.p,
    computed.detectable,
    computed.p < 0.05 as decided,
    corrected.adjusted_p < 0.05 as decided_adjusted,
    corrected.comparisons,
    case
        when expected.task = 'average' and computed.p < 0.05 then (
            select string_agg(others.left_out, ', ' order by others.left_out)
            from internal.factors_without as others
            where others.study_id = expected.study_id
                and (others.depth, others.variant, others.metric)
                    is not distinct from (expected.depth, expected.variant, expected.measure)
                and others.baseline = computed.baseline
                and others.digest = computed.digest
                and not others.decided
        )
    end as hangs_on
from internal.expected_curves as expected
left join pairs
    on pairs.study_id = expected.study_id
    and (pairs.depth, pairs.variant, pairs.task, pairs.metric)
        is not distinct from (expected.depth, expected.variant, expected.task, expected.measure)
left join internal.computed_factors as computed
    on computed.study_id = expected.study_id
    and (computed.depth, computed.variant, computed.task, computed.metric)
        is not distinct from (expected.depth, expected.variant, expected.task, expected.measure)
    and computed.baseline = coalesce(baseline_variant, expected.baseline)
    and computed.digest = pairs.digest
left join corrected
    on corrected.study_id = expected.study_id
    and (corrected.depth, corrected.variant, corrected.task, corrected.metric)
        is not distinct from (expected.depth, expected.variant, expected.task, expected.measure)
order by
    expected.study_id, expected.depth, expected.place, expected.task = 'average', expected.task, expected.measure;
