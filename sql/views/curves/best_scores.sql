-- One row: the best score of a model's curve, at the first checkpoint that has that score.
-- needs: reaches, score_curves
--     from best_scores(null) where measure = 'loss'
-- Scores and `direction` are those of score_curves.
create or replace macro best_scores(direction) as table
with bests as (
    select
        *,
        max(score) over curve as best,
        count(*) over curve as checkpoints,
        max(tokens) over curve as tokens_trained
    from score_curves(direction)
    window curve as (partition by study_id, depth, variant, measure, task, metric, filter)
)

select
    study_id, depth, variant, measure, task,
    best as score,
    case when score = value then best else -best end as value,
    tokens,
    stderr,
    chance,
    items,
    seeds,
    checkpoints,
    tokens_trained, -- at the last checkpoint of the curve
    metric,
    filter
from bests
where reaches(score, best)
qualify row_number() over (partition by study_id, depth, variant, measure, task, metric, filter order by tokens) = 1;

comment on macro table best_scores is
    'best_scores(direction): the best score of every curve and the first checkpoint that has it';
