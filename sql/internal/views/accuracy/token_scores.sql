-- One row: the value of a run at a checkpoint in a metric of a task; on the task 'average' the mean over families.
-- `measure` says that the metric is the accuracy, the loss or the perplexity of the task in this study (chosen_metric);
-- null for other metrics.
create or replace view internal.token_scores as
with scores as (
    select
        evaluations.* exclude (stderr, chance, task_version),
        chosen_metric.kind as measure,
        -- An accuracy without a standard error has that of a share of right answers, with lm-eval's n - 1.
        case
            when isfinite(evaluations.stderr) then evaluations.stderr
            when chosen_metric.kind = 'accuracy' and evaluations.items > 1 and evaluations.value between 0 and 1
                then sqrt(evaluations.value * (1 - evaluations.value) / (evaluations.items - 1))
        end as stderr,
        -- Of guessing, or of the best trivial rule where that is known to be better.
        case
            when chosen_metric.kind is null or chosen_metric.kind = 'accuracy'
                then greatest(coalesce(evaluations.chance, chosen_metric.chance), chosen_metric.trivial)
        end as chance,
        chosen_metric.weight
    from internal.study_evaluations as evaluations
    left join internal.chosen_metric using (study_id, task, metric, filter)
    where isfinite(evaluations.value) and evaluations.task <> 'average' -- the name of the average curve
),

-- The average curve: the mean over families of tasks, at the checkpoints that have all averaged tasks of the study.
-- Over fewer tasks the mean would move because tasks come and go. The paper's Average column is the best of such a
-- curve, not the mean of the tasks' bests, which are at different checkpoints.
averages as (
    select
        scores.* exclude (task, value, stderr, items, chance, metric, filter, weight),
        'average' as task,
        sum(weight * scores.value order by scores.task) as value,
        -- Tasks have different items, so their errors are independent.
        case when count(scores.stderr) = count(*) then sqrt(sum((weight * scores.stderr) ** 2)) end as stderr,
        sum(scores.items)::bigint as items,
        case when count(scores.chance) = count(*) then sum(weight * scores.chance) end as chance
    from scores
    where weight is not null
    group by all
    having sum(weight) > 1 - 1e-9 -- all tasks are there
)

select * exclude (weight) from scores
union all by name
select * from averages;
