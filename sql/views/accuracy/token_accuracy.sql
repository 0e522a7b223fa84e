-- One row: the accuracy of a run at a checkpoint, on a task or on the average over tasks.
create or replace view token_accuracy as
select
    study_id, depth, variant, model_id, run_id, seed, status, task,
    tokens, -- training tokens at the checkpoint
    value as accuracy, -- accuracy, 0 to 1
    stderr,
    items, -- number of items that were asked
    chance, -- accuracy of guessing, or of the best trivial rule if that is known to be better, 0 to 1
    metric, -- name of the metric whose value is the accuracy
    filter
from internal.token_scores
where measure = 'accuracy';
