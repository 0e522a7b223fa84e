-- One row: the score of a benchmark item at a checkpoint on a task, as an entry of a sparse matrix.
-- needs: scored_points
-- `point` is the checkpoint's number in scored_points; `item` numbers the items by name, alike for all checkpoints.
create or replace macro paired_scores(study, measure_name, task_name) as table
with scores as (
    select points.point, items.item_id, items.value
    from items
    join scored_points(study, measure_name, task_name) as points using (run_id, tokens, metric, filter)
    where items.task = task_name and isfinite(items.value)
),

numbered as (
    select item_id, row_number() over (order by item_id) - 1 as item
    from (select distinct item_id from scores)
)

select scores.point, numbered.item, scores.value
from scores
join numbered using (item_id);

comment on macro table paired_scores is
    'paired_scores(study, measure, task): the scores of every item at every checkpoint';
