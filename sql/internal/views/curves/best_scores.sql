-- One row: the best score of a model's curve, at the first checkpoint that has that score.
create or replace view internal.best_scores as
with bests as (
    select
        *,
        max(score) over curve as best,
        count(*) over curve as checkpoints,
        max(tokens) over curve as tokens_trained
    from internal.score_curves
    window curve as (partition by study_id, depth, variant, measure, task)
)

select
    study_id, depth, variant, measure, task,
    best as score,
    tokens,
    stderr,
    chance,
    items,
    seeds,
    checkpoints,
    tokens_trained -- at the last checkpoint of the curve
from bests
where internal.reaches(score, best)
qualify row_number() over (partition by study_id, depth, variant, measure, task order by tokens) = 1;
