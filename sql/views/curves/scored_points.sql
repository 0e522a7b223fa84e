-- One row: a checkpoint with a measure of a task that may be part of a curve (see curve_points), numbered from 0.
-- needs: counted_scores
-- The numbers are the columns of the matrix of paired_scores.
create or replace macro scored_points(study, measure_name, task_name) as table
select run_id, tokens, metric, filter, row_number() over (order by run_id, tokens) - 1 as point
from counted_scores
where study_id = study
    and measure = measure_name
    and task = task_name
order by point;

comment on macro table scored_points is
    'scored_points(study, measure, task): the checkpoints behind the curves, numbered';
