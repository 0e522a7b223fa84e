-- One row: an accuracy or loss that a model and LA both reach, with the tokens that each of them needs to that target.
-- needs: log_crossing, mean_factors_against, score_curves, variant_order
-- The targets are the middles of 25 equal parts of the range that both curves cover, so that the geometric mean of their
-- factors is nearly the mean factor. They show where a model is ahead and where not.
create or replace view factor_by_target as
with targets as (
    select
        study_id, depth, variant, task,
        metric,
        range_low + (range_high - range_low) * (place - 0.5) / 25 as target,
        case metric when 'loss' then -target else target end as goal
    from mean_factors_against('LA')
    cross join range(1, 26) as places(place)
    where range_high is not null
),

-- The tokens at which the best so far of the curve of LA, or of the model, rises to the goal.
crossings as (
    select
        targets.*,
        curves.variant as curve,
        log_crossing(curves.tokens_before, curves.best_before, curves.tokens, curves.score, targets.goal) as tokens
    from targets
    join score_curves as curves
        on curves.study_id = targets.study_id
        and (curves.depth, curves.task, curves.measure)
            is not distinct from (targets.depth, targets.task, targets.metric)
        and curves.variant in (targets.variant, 'LA')
        and curves.best_before < targets.goal
        and curves.score >= targets.goal
)

select
    study_id, depth, variant, task,
    metric,
    target,
    any_value(tokens) filter (curve = 'LA') as baseline_tokens,
    any_value(tokens) filter (curve = variant) as variant_tokens,
    baseline_tokens / variant_tokens as factor
from crossings
group by study_id, depth, variant, task, metric, target
order by study_id, depth, variant_order(variant), variant, task = 'average', task, metric, target;

comment on view factor_by_target is 'Tokens of every model and of LA to the same accuracies and losses, target by target';
