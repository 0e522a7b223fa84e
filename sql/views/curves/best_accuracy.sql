-- One row: the best accuracy of a model on a task over its checkpoints, at the first checkpoint that has that accuracy.
-- needs: best_scores
create or replace view best_accuracy as
select
    study_id, depth, variant, task,
    score as accuracy,
    tokens,
    stderr,
    chance,
    items,
    seeds,
    checkpoints,
    tokens_trained -- at the last checkpoint of the curve
from best_scores
where measure = 'accuracy';

comment on view best_accuracy is 'The best accuracy of every model and task, and the first checkpoint that has it';
