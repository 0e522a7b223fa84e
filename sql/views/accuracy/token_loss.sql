-- One row: the loss of a run at a checkpoint in bits per byte, on a task or on the task 'average'. Lower is better.
-- The loss of a benchmark is that of its gold answers. The average is over the benchmarks of the average accuracy; texts
-- and the validation split have rows of their own and are no part of it.
create or replace view token_loss as
select
    study_id, depth, variant, model_id, run_id, seed, status, task,
    tokens, -- training tokens at the checkpoint
    value as loss, -- bits per byte
    stderr,
    items,
    metric, -- whose value is the loss
    filter
from internal.token_scores
where measure = 'loss';
