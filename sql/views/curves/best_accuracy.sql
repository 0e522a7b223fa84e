-- One row: the best accuracy of a model on a task over its checkpoints, at the first checkpoint that has that accuracy.
create or replace view best_accuracy as
select
    study_id, depth, variant, task,
    score as accuracy, -- 0 to 1, mean over the seeds
    tokens, -- training tokens at the first checkpoint with the best accuracy
    stderr,
    chance,
    items,
    seeds, -- number of seeds
    checkpoints, -- number of checkpoints of the curve
    tokens_trained -- training tokens at the last checkpoint of the curve
from internal.best_scores
where measure = 'accuracy';
