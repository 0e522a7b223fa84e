-- Delete a study's runs that are not among its `outputs`: the data or a rate of the study have changed since.
delete from ingested
where
    study_id in (select study_id from outputs)
    and output in (select 'runs/' || run_id from runs where study_id = ingested.study_id)
    and output not in (select output from outputs);
delete from runs
where
    study_id in (select study_id from outputs)
    and run_id not in (select run_id from outputs where run_id is not null);
