-- One row: a model and metric (accuracy, loss) of a task, with its mean factor against a baseline of its depth.
-- needs: common_ranges, expected_curves, rising_segments, variant_order
--     from mean_factors_against('DR')
-- The factor is exp of the mean of ln(tokens of the baseline / tokens of the model) over the scores that both curves
-- cover, at equal score. A curve is made monotone by its best so far and is linear in log tokens between checkpoints, so
-- the mean is exact: each rising segment adds its rise within the range times the log tokens at the middle of that rise.
-- The baseline's own factor is 1. Without a common range the factor is null.
create or replace macro mean_factors_against(baseline_variant) as table
with ranges as (
    from common_ranges(baseline_variant)
),

clipped as (
    select
        ranges.study_id, ranges.depth, ranges.variant, ranges.task, ranges.metric,
        segments.* exclude (study_id, depth, variant, task, metric),
        greatest(segments.score_from, ranges.low) as low,
        least(segments.score_to, ranges.high) as high,
        -- Tokens of the baseline count for the model, its own against it.
        (segments.variant = baseline_variant)::integer - (segments.variant = ranges.variant)::integer as side
    from ranges
    join rising_segments as segments
        on segments.study_id = ranges.study_id
        and (segments.depth, segments.task, segments.metric)
            is not distinct from (ranges.depth, ranges.task, ranges.metric)
        and segments.variant in (ranges.variant, baseline_variant)
        and segments.score_from < ranges.high
        and segments.score_to > ranges.low
),

areas as (
    select
        study_id, depth, variant, task, metric,
        sum(
            side * (high - low) * (
                log_tokens_from
                + (log_tokens_to - log_tokens_from) * ((low + high) / 2 - score_from) / (score_to - score_from)
            )
            order by score_from, side
        ) as area
    from clipped
    group by study_id, depth, variant, task, metric
)

select
    expected.study_id, expected.depth, expected.variant, expected.task,
    expected.measure as metric,
    case
        when expected.variant = baseline_variant and ranges.seeds is not null then 1.0
        else exp(areas.area / (ranges.high - ranges.low))
    end as factor,
    least(ranges.seeds, ranges.baseline_seeds) as seeds,
    -- The range in accuracies, or in losses.
    case expected.measure when 'loss' then -ranges.high else ranges.low end as range_low,
    case expected.measure when 'loss' then -ranges.low else ranges.high end as range_high,
    (ranges.high - ranges.low) / ranges.own_rise as variant_share, -- of the model's rise, the part in the range
    (ranges.high - ranges.low) / ranges.baseline_rise as baseline_share,
    -- Whether the range is hardly more than noise: it rises by less than two standard errors, or no higher above chance.
    -- False for unknown errors, so that `where not within_noise` loses no rows.
    coalesce(
        ranges.high - ranges.low < 2 * ranges.stderr
        or (expected.measure = 'accuracy' and ranges.high <= ranges.chance + 2 * ranges.stderr),
        false
    ) as within_noise
from expected_curves as expected
left join ranges
    on ranges.study_id = expected.study_id
    and (ranges.depth, ranges.variant, ranges.task, ranges.metric)
        is not distinct from (expected.depth, expected.variant, expected.task, expected.measure)
left join areas
    on areas.study_id = expected.study_id
    and (areas.depth, areas.variant, areas.task, areas.metric)
        is not distinct from (expected.depth, expected.variant, expected.task, expected.measure)
where expected.measure in ('accuracy', 'loss')
order by study_id, depth, variant_order(expected.variant), variant, expected.task = 'average', task, expected.measure;

comment on macro table mean_factors_against is
    'mean_factors_against(variant): mean token factors of every model against that variant, with the range they cover';
