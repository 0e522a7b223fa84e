-- One row: the best accuracy of a model on a task over its checkpoints, at the first checkpoint that has that accuracy.
-- needs: accuracy_curve, reaches
create or replace view best_accuracy as
with bests as (
    select
        *,
        max(accuracy) over curve as best,
        count(*) over curve as checkpoints,
        max(tokens) over curve as tokens_trained
    from accuracy_curve
    window curve as (partition by study_id, depth, variant, task)
)

select
    study_id, depth, variant, task,
    best as accuracy,
    tokens,
    stderr,
    chance,
    items,
    seeds,
    checkpoints,
    tokens_trained -- at the last checkpoint of the curve
from bests
where reaches(accuracy, best)
qualify row_number() over (partition by study_id, depth, variant, task order by tokens) = 1;

comment on view best_accuracy is 'The best accuracy of every model and task, and the first checkpoint that has it';
