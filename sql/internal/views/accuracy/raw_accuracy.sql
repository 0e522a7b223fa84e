-- One row: the accuracy of a run's raw weights at a checkpoint, on a task or on the task 'average'.
-- Rows are there where a study evaluates both kinds of weights (evaluation.weights: both).
create or replace view internal.raw_accuracy as
with tasks as (
    select
        scores.study_id, scores.depth, scores.variant, scores.run_id, scores.task,
        scores.tokens,
        raw_evaluations.value as accuracy,
        chosen_metric.weight
    from raw_evaluations
    join token_accuracy as scores using (run_id, tokens, task, metric, filter)
    join internal.chosen_metric using (study_id, task, metric, filter)
    left join internal.evaluation_versions as versions using (run_id, tokens, task)
    -- Where a run was evaluated again with raw weights alone, `evaluations` has these, and nothing is to be compared.
    where isfinite(raw_evaluations.value) and versions.weights is distinct from 'raw'
)

select * exclude (weight) from tasks
union all by name
select * exclude (task, accuracy, weight), 'average' as task, sum(weight * accuracy) as accuracy
from tasks
where weight is not null
group by all
having sum(weight) > 1 - 1e-9; -- all tasks are there
