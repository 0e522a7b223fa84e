-- One row: a checkpoint with an accuracy on a task that may be part of a curve (see curve_points), numbered from 0.
-- needs: token_accuracy
-- The numbers are the columns of the matrix of paired_scores.
create or replace macro scored_points(study, task_name) as table
select run_id, tokens, metric, filter, row_number() over (order by run_id, tokens) - 1 as point
from token_accuracy
where study_id = study and task = task_name and status is distinct from 'screened' and tokens > 0
order by point;

comment on macro table scored_points is 'scored_points(study, task): the checkpoints behind the curves, numbered';
