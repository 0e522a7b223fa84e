-- One row: a task of a study, and what the study asked: number and digests of the items, who asked.
-- Who asked is named without a version: items asked by another version of a harness are the same items.
create or replace macro internal.compared_tasks(study) as table
with asked as (
    select
        evaluations.task,
        chosen_metric.averaged,
        evaluations.items,
        versions.data_version,
        versions.weights,
        regexp_replace(versions.harness_version, ' [0-9].*$', '') as harness
    from internal.study_evaluations as evaluations
    join internal.chosen_metric using (study_id, task, metric, filter)
    left join internal.evaluation_versions as versions using (run_id, tokens, task)
    where study_id = study and chosen_metric.kind = 'accuracy'
)

select
    task,
    any_value(averaged) as averaged,
    max(items) as items,
    coalesce(list_sort(list(distinct data_version) filter (where data_version is not null)), []) as data_versions,
    coalesce(list_sort(list(distinct harness) filter (where harness is not null)), []) as asked_by,
    coalesce(list_sort(list(distinct weights) filter (where weights is not null)), []) as weights
from asked
group by task
order by task;
