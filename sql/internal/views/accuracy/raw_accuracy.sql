-- One row: the accuracy of a run's raw weights at a checkpoint, on a task or on the task 'average'.
-- Rows are there where a study evaluates both kinds of weights (evaluation.weights: both); `averaged_weights` is the
-- accuracy of the averaged weights at the checkpoint, which all other views are about.
create or replace view internal.raw_accuracy as
with tasks as (
    select
        scores.study_id, scores.depth, scores.variant, scores.model_id, scores.run_id, scores.seed, scores.status,
        scores.task,
        scores.tokens,
        raw_evaluations.value as accuracy,
        scores.accuracy as averaged_weights,
        scores.metric,
        scores.filter
    from raw_evaluations
    join token_accuracy as scores using (run_id, tokens, task, metric, filter)
    left join internal.evaluation_versions as versions using (run_id, tokens, task)
    -- Where a run was evaluated again with raw weights alone, `evaluations` has these, and nothing is to be compared.
    where isfinite(raw_evaluations.value) and versions.weights is distinct from 'raw'
)

select * exclude (metric, filter) from tasks
union all by name
select
    tasks.* exclude (task, accuracy, averaged_weights, metric, filter),
    'average' as task,
    sum(weight * tasks.accuracy) as accuracy,
    sum(weight * tasks.averaged_weights) as averaged_weights
from tasks
join internal.chosen_metric using (study_id, task, metric, filter)
where chosen_metric.averaged and chosen_metric.kind = 'accuracy'
group by all
having sum(weight) > 1 - 1e-9; -- all tasks are there
