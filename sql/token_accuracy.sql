-- Accuracy against training tokens, one row for each run, checkpoint and task, and for the task 'average'.
create or replace view token_accuracy as
with accuracies as (
    select
        model_runs.study_id,
        model_runs.depth,
        model_runs.variant,
        model_runs.model_id,
        model_runs.run_id,
        model_runs.seed,
        model_runs.status,
        evaluations.task,
        evaluations.tokens,
        evaluations.value as accuracy,
        -- Where an evaluation brings no standard error: that of a share of right answers, with lm-eval's n - 1.
        case
            when isfinite(evaluations.stderr) then evaluations.stderr
            when evaluations.items > 1 and evaluations.value between 0 and 1
                then sqrt(evaluations.value * (1 - evaluations.value) / (evaluations.items - 1))
        end as stderr,
        evaluations.items,
        coalesce(evaluations.chance, chosen_metric.chance) as chance,
        evaluations.metric,
        evaluations.filter,
        chosen_metric.averaged
    from evaluations
    join model_runs using (run_id)
    join chosen_metric using (study_id, task, metric, filter)
    where chosen_metric.kind = 'accuracy' and isfinite(evaluations.value)
),

averaged_tasks as (
    select study_id, count(*) as tasks
    from chosen_metric
    where averaged
    group by study_id
),

-- The average curve: the plain mean over tasks, at the checkpoints where all tasks of the study are there. A mean over
-- fewer would move because tasks come and go. Its best is not the mean of the tasks' bests, which are taken at
-- different checkpoints; the paper's Average column is of this kind.
averages as (
    select
        study_id,
        any_value(accuracies.depth) as depth,
        any_value(accuracies.variant) as variant,
        any_value(accuracies.model_id) as model_id,
        accuracies.run_id,
        any_value(accuracies.seed) as seed,
        any_value(accuracies.status) as status,
        'average' as task,
        accuracies.tokens,
        avg(accuracies.accuracy order by accuracies.task) as accuracy,
        -- The tasks' items are different ones, so their errors are independent.
        case when count(accuracies.stderr) = count(*) then sqrt(sum(accuracies.stderr ** 2)) / count(*) end as stderr,
        sum(accuracies.items)::bigint as items,
        case when count(accuracies.chance) = count(*) then avg(accuracies.chance) end as chance,
        null as metric,
        null as filter
    from accuracies
    join averaged_tasks using (study_id)
    where accuracies.averaged
    group by study_id, accuracies.run_id, accuracies.tokens
    having count(*) = any_value(averaged_tasks.tasks)
)

select * exclude (averaged) from accuracies
union all by name
select * from averages;

comment on view token_accuracy is 'Accuracy of every run at every checkpoint, by task and on average';
