-- One row: an accuracy or loss that a model and LA both reach, with the tokens that each of them needs to that target.
-- needs: common_ranges, rising_segments, variant_order
-- The targets are the middles of 25 equal parts of the range that both curves cover, so that the geometric mean of their
-- factors is nearly the mean factor. They show where a model is ahead and where not.
create or replace view factor_by_target as
with targets as (
    select ranges.*, low + (high - low) * (place - 0.5) / 25 as target
    from common_ranges('LA') as ranges
    cross join range(1, 26) as places(place)
    where high is not null
),

-- The log tokens at which the curve of LA, or of the model, has the target.
crossings as (
    select
        targets.study_id, targets.depth, targets.variant, targets.task, targets.metric, targets.target,
        segments.variant as curve,
        segments.log_tokens_from + (segments.log_tokens_to - segments.log_tokens_from)
        * (targets.target - segments.score_from) / (segments.score_to - segments.score_from) as log_tokens
    from targets
    join rising_segments as segments
        on segments.study_id = targets.study_id
        and (segments.depth, segments.task, segments.metric)
            is not distinct from (targets.depth, targets.task, targets.metric)
        and segments.variant in (targets.variant, 'LA')
        and segments.score_from < targets.target
        and segments.score_to >= targets.target
)

select
    study_id, depth, variant, task,
    metric,
    case metric when 'loss' then -crossings.target else crossings.target end as target,
    exp(any_value(log_tokens) filter (curve = 'LA')) as baseline_tokens,
    exp(any_value(log_tokens) filter (curve = variant)) as variant_tokens,
    baseline_tokens / variant_tokens as factor
from crossings
group by study_id, depth, variant, task, metric, crossings.target
order by study_id, depth, variant_order(variant), variant, task = 'average', task, metric, target;

comment on view factor_by_target is 'Tokens of every model and of LA to the same accuracies and losses, target by target';
