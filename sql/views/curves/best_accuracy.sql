-- One row: the best accuracy of a model on a task over its checkpoints, at the first checkpoint that has that accuracy.
create or replace view best_accuracy as
with curves as (
    select
        *,
        max(score) over curve as best,
        count(*) over curve as checkpoints,
        max(tokens) over curve as tokens_trained
    from internal.score_curves
    where measure = 'accuracy'
    window curve as (partition by study_id, depth, variant, task)
)

select
    study_id, depth, variant, task,
    best as accuracy, -- best accuracy, mean over the seeds, 0 to 1
    tokens, -- training tokens at the first checkpoint with the best accuracy
    stderr,
    chance, -- accuracy of guessing, or of the best trivial rule if that is known to be better, 0 to 1
    items, -- number of items that were asked
    seeds, -- number of seeds
    checkpoints, -- number of checkpoints of the curve
    tokens_trained -- training tokens at the last checkpoint of the curve
from curves
where internal.reaches(score, best)
qualify row_number() over (partition by study_id, depth, variant, task order by tokens) = 1;
