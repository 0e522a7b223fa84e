-- One row: a point of a model's curve with its score, of which more is better, and what the curve had before.
-- needs: mean_curves
--     from score_curves(null) where measure = 'loss'
-- The score is the value times `direction`: 1 where higher is better, -1 where lower is. Null takes 1 for accuracies and
-- -1 for the rest. The first row that reaches a goal which `best_before` does not reach is the crossing of that goal.
create or replace macro score_curves(direction) as table
with points as (
    select *, value * coalesce(direction, case measure when 'accuracy' then 1 else -1 end) as score
    from mean_curves
)

select
    *,
    lag(tokens) over curve as tokens_before,
    lag(score) over curve as score_before,
    max(score) over (curve rows between unbounded preceding and 1 preceding) as best_before
from points
window curve as (partition by study_id, depth, variant, measure, task, metric, filter order by tokens);

comment on macro table score_curves is
    'score_curves(direction): every curve with scores, more is better; direction 1, -1 or null, that of the measure';
