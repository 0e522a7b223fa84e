-- One row: a point of a model's accuracy or loss curve with its score, of which more is better, and what came before.
-- The score is the accuracy, or minus the loss.
create or replace view internal.score_curves as
with points as (
    select *, case measure when 'accuracy' then value else -value end as score
    from internal.mean_curves
    where measure in ('accuracy', 'loss')
)

select
    *,
    lag(tokens) over curve as tokens_before,
    lag(score) over curve as score_before,
    max(score) over (curve rows between unbounded preceding and 1 preceding) as best_before
from points
window curve as (partition by study_id, depth, variant, measure, task order by tokens);
