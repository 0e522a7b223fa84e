-- One row: an item of a benchmark and a model, with the tokens at which the model learns the item.
-- `dreamer items` computes the rows. docs/statistics.md defines the learning time.
create or replace view learning_times as
select
    times.study_id,
    times.depth,
    times.variant,
    times.task,
    times.item_id,
    times.state, -- learned, 'at first' (before the first checkpoint) or never (not at the last checkpoint)
    times.tokens, -- training tokens at which the item is learned, half way from guessing to knowing; null: see state
    times.low, -- lower end of the 90 % interval; null: before the first checkpoint
    times.high, -- upper end of the 90 % interval; null: behind the last checkpoint
    times.difficulty, -- easy, middle or hard: thirds of the task's items by the learning time of all runs together
    times.share_right, -- share of the seeds' answers at the last checkpoint that are right, 0 to 1
    times.seeds, -- number of seeds of the model
    curves.digest is distinct from times.digest as outdated -- whether results have changed since; see `dreamer items`
from internal.computed_times as times
left join internal.measured_curves as curves
    on curves.metric = 'accuracy'
        and (curves.study_id, curves.depth, curves.variant, curves.task)
            is not distinct from (times.study_id, times.depth, times.variant, times.task);
