-- One row: the score (1 right, 0 wrong) of an item in a run at the end of the curve of its model, with the task's chance.
-- Of an item that was entered twice by hand one score counts.
create or replace macro internal.final_items(study) as table
with ends as (
    from internal.curve_points
    where study_id = study and measure = 'accuracy' and task <> 'average'
    qualify tokens = max(tokens) over (partition by depth, variant, task)
)

select
    ends.study_id, ends.depth, ends.variant, ends.task, ends.run_id, ends.tokens, ends.chance,
    items.item_id,
    any_value(items.value) as value
from ends
join items
    on (items.run_id, items.tokens, items.task, items.metric, items.filter)
        = (ends.run_id, ends.run_tokens, ends.task, ends.metric, ends.filter)
where isfinite(items.value)
group by all;
