-- One row: a point of a model's accuracy curve, with the point before and the best accuracy before.
-- needs: mean_curves
-- The first row that reaches a goal which `best_before` does not reach is the crossing of that goal.
create or replace view accuracy_curve as
with points as (
    select study_id, depth, variant, task, tokens, value as accuracy, stderr, chance, items, seeds
    from mean_curves
    where measure = 'accuracy'
)

select
    *,
    lag(tokens) over curve as tokens_before,
    lag(accuracy) over curve as accuracy_before,
    max(accuracy) over (curve rows between unbounded preceding and 1 preceding) as best_before
from points
window curve as (partition by study_id, depth, variant, task order by tokens);

comment on view accuracy_curve is 'Accuracy against tokens of every model, mean over its seeds, by task and on average';
