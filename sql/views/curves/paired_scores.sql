-- One row: the score of a benchmark item at a checkpoint on a task, as an entry of a sparse matrix.
-- needs: scored_points
-- `point` is the checkpoint's number in scored_points; `item` numbers the items by name, alike for all checkpoints.
create or replace macro paired_scores(study, measure_name, task_name) as table
select points.point, dense_rank() over (order by items.item_id) - 1 as item, items.value
from items
join scored_points(study, measure_name, task_name) as points using (run_id, tokens, metric, filter)
where items.task = task_name and isfinite(items.value);

comment on macro table paired_scores is
    'paired_scores(study, measure, task): the scores of every item at every checkpoint';
