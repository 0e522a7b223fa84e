-- One row: a task of a study, and what the study asked: number and digests of the items, who asked.
-- Who asked is named without a version: items asked by another version of a harness are the same items.
create or replace macro internal.compared_tasks(study) as table
select
    evaluations.task,
    any_value(chosen_metric.averaged) as averaged,
    max(evaluations.items) as items,
    list_sort(list_distinct(list(versions.data_version))) as data_versions,
    list_sort(list_distinct(list(regexp_replace(versions.harness_version, ' [0-9].*$', '')))) as asked_by,
    list_sort(list_distinct(list(versions.weights))) as weights
from internal.study_evaluations as evaluations
join internal.chosen_metric using (study_id, task, metric, filter)
left join internal.evaluation_versions as versions using (run_id, tokens, task)
where study_id = study and chosen_metric.kind = 'accuracy'
group by evaluations.task
order by evaluations.task;
