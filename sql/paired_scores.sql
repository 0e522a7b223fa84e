-- The scores of every benchmark item at every checkpoint of one task, as a sparse matrix: `point` as in scored_points,
-- `item` numbers the items by name, the same for all runs and checkpoints.
create or replace macro paired_scores(study, task_name) as table
with scores as (
    select points.point, items.item_id, items.value
    from items
    join scored_points(study, task_name) as points
        on points.run_id = items.run_id
        and points.tokens = items.tokens
        and points.metric = items.metric
        and points.filter = items.filter
    where items.task = task_name and isfinite(items.value)
),

numbered as (
    select item_id, row_number() over (order by item_id) - 1 as item
    from (select distinct item_id from scores)
)

select scores.point, numbered.item, scores.value
from scores
join numbered using (item_id);

comment on macro table paired_scores is 'paired_scores(study, task): the scores of every item at every checkpoint';
