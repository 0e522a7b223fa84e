-- One row: a point of a model's accuracy curve, with the point before and the best accuracy before.
create or replace view internal.accuracy_curve as
select
    study_id, depth, variant, task,
    tokens,
    score as accuracy,
    stderr,
    chance,
    items,
    seeds,
    tokens_before,
    score_before as accuracy_before,
    best_before
from internal.score_curves
where measure = 'accuracy';
