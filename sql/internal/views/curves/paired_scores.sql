-- One row: the score of an item of a task in a measure, at a checkpoint that may be part of a curve.
-- Of an item that was entered twice by hand one score counts.
create or replace macro internal.paired_scores(study, measure_name, task_name) as table
select points.run_id, points.tokens, items.item_id, any_value(items.value) as value
from items
join internal.counted_scores as points using (run_id, tokens, task, metric, filter)
where points.study_id = study
    and points.measure = measure_name
    and points.task = task_name
    and isfinite(items.value)
group by all;
