-- One row: the accuracy of a run at a checkpoint, on a task or on the task 'average'.
create or replace view token_accuracy as
select
    study_id, depth, variant, model_id, run_id, seed, status, task,
    tokens, -- training tokens at the checkpoint
    value as accuracy, -- 0 to 1
    stderr,
    items,
    chance, -- accuracy of guessing, or of the best trivial rule where that is known to be better
    metric, -- whose value is the accuracy
    filter
from internal.token_scores
where measure = 'accuracy';
