-- One row: the loss of a model on held-out documents at the last point of its curve, with the digests of the documents.
--     from internal.compared_losses('demo-1a2b3c4d')
create or replace macro internal.compared_losses(study) as table
select
    depth, variant, task,
    max(curves.tokens) as tokens,
    arg_max(curves.value, curves.tokens) as loss,
    arg_max(curves.seeds, curves.tokens) as seeds,
    (
        select coalesce(list_sort(list(distinct versions.data_version)), [])
        from internal.evaluation_versions as versions
        join internal.model_runs using (run_id)
        where study_id = study and task = 'validation' and versions.data_version is not null
    ) as data_versions
from internal.mean_curves as curves
where curves.study_id = study and curves.measure = 'loss' and curves.task = 'validation'
group by depth, variant, task
order by depth, variant;
