-- One row: the mean score over seeds of an item at a checkpoint of a model, to compare with another study.
-- The checkpoint is 'final' (the last one of the curve) or 'best' (the first one with the best accuracy).
create or replace macro compared_scores(study) as table
with ends as (
    select study_id, depth, variant, task, 'final' as checkpoint, tokens_trained as tokens from best_accuracy
    union all
    select study_id, depth, variant, task, 'best' as checkpoint, tokens from best_accuracy
),

answered as (
    select
        ends.*,
        items.metric, items.filter, items.item_id, items.run_id,
        any_value(items.value) as value -- counts once if an item was entered twice by hand
    from ends
    join internal.curve_points as points
        on points.study_id = ends.study_id
        and (points.depth, points.variant, points.task) is not distinct from (ends.depth, ends.variant, ends.task)
        and points.measure = 'accuracy'
        and points.tokens = ends.tokens
    join items
        on items.run_id = points.run_id
        and items.tokens = points.run_tokens
        and items.task = points.task
        and items.metric = points.metric
        and items.filter = points.filter
    where ends.study_id = study and ends.task <> 'average' and isfinite(items.value)
    group by all
)

select
    depth, variant, task, checkpoint,
    tokens,
    metric,
    filter,
    item_id,
    avg(value order by run_id) as value,
    list(value order by run_id) as seed_values
from answered
group by depth, variant, task, checkpoint, tokens, metric, filter, item_id
order by depth, variant, task, checkpoint, item_id;
