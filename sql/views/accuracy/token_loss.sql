-- One row: the loss of a run at a checkpoint in bits per byte, on a task or on the average over tasks. Lower is better.
-- The loss of a benchmark is the loss of its gold answers. The average is over the same benchmarks as the average
-- accuracy. Texts and held-out documents have separate rows, and are not in the average.
create or replace view token_loss as
select
    study_id, depth, variant, model_id, run_id, seed, status, task,
    tokens, -- training tokens at the checkpoint
    value as loss, -- loss in bits per byte
    stderr,
    items, -- number of items that were asked
    metric, -- name of the metric whose value is the loss
    filter
from internal.token_scores
where measure = 'loss';
