-- What a study asked on every task that has an accuracy, for telling whether two studies asked the same: how many
-- items, digests of them, who asked (without its version: items asked by another version are still the same items),
-- and the version of the task.
create or replace macro compared_tasks(study) as table
with asked as (
    select
        evaluations.task,
        chosen_metric.averaged,
        evaluations.items,
        evaluations.task_version,
        versions.data_version,
        regexp_replace(versions.harness_version, ' [0-9].*$', '') as harness
    from evaluations
    join model_runs using (run_id)
    join chosen_metric using (study_id, task, metric, filter)
    left join evaluation_versions as versions using (run_id, tokens, task)
    where study_id = study and chosen_metric.kind = 'accuracy'
)

select
    task,
    any_value(averaged) as averaged,
    min(items) as fewest,
    max(items) as items,
    coalesce(list_sort(list(distinct data_version) filter (where data_version is not null)), []) as data_versions,
    coalesce(list_sort(list(distinct harness) filter (where harness is not null)), []) as asked_by,
    coalesce(list_sort(list(distinct task_version) filter (where task_version is not null)), []) as task_versions
from asked
group by task
order by task;

comment on macro table compared_tasks is 'compared_tasks(study): what was asked on every task, to compare with another study';
