-- One row: the accuracy of a run at a checkpoint, on a task or on the task 'average'.
-- needs: chosen_metric, model_runs
create or replace view token_accuracy as
with accuracies as (
    select
        model_runs.* exclude (tokens_per_second, mfu, config),
        evaluations.task,
        evaluations.tokens,
        evaluations.value as accuracy,
        -- An evaluation without a standard error has that of a share of right answers, with lm-eval's n - 1.
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

-- The average curve: the plain mean over tasks, at the checkpoints that have all averaged tasks of the study. Over
-- fewer tasks the mean would move because tasks come and go. The paper's Average column is the best of such a curve,
-- not the mean of the tasks' bests, which are at different checkpoints.
averages as (
    select
        accuracies.* exclude (task, accuracy, stderr, items, chance, metric, filter, averaged),
        'average' as task,
        avg(accuracies.accuracy order by accuracies.task) as accuracy,
        -- Tasks have different items, so their errors are independent.
        case when count(accuracies.stderr) = count(*) then sqrt(sum(accuracies.stderr ** 2)) / count(*) end as stderr,
        sum(accuracies.items)::bigint as items,
        case when count(accuracies.chance) = count(*) then avg(accuracies.chance) end as chance
    from accuracies
    join averaged_tasks using (study_id)
    where accuracies.averaged
    group by all
    having count(*) = any_value(averaged_tasks.tasks)
)

select * exclude (averaged) from accuracies
union all by name
select * from averages;

comment on view token_accuracy is 'Accuracy of every run at every checkpoint, by task and on average';
