-- Delete the rows of `outputs` from the tables.
delete from studies where study_id in (select study_id from outputs where task = 'study');
delete from curation where study_id in (select study_id from outputs where task = 'study');
delete from sources where study_id in (select study_id from outputs where task = 'study');
delete from models where study_id in (select study_id from outputs where task = 'study');
delete from internal.claims where study_id in (select study_id from outputs where task = 'claims');
delete from internal.computed_factors where study_id in (select study_id from outputs where task = 'computed_factors');
delete from runs where (study_id, run_id) in (select study_id, run_id from outputs where task is null);
delete from internal.run_details where run_id in (select run_id from outputs where task is null);
delete from steps where run_id in (select run_id from outputs where task is null);
delete from checkpoints where run_id in (select run_id from outputs where task is null);
delete from evaluations where (run_id, tokens, task) in (select run_id, tokens, task from outputs);
delete from internal.evaluation_versions where (run_id, tokens, task) in (select run_id, tokens, task from outputs);
delete from raw_evaluations where (run_id, tokens, task) in (select run_id, tokens, task from outputs);
delete from depth_evaluations where (run_id, tokens, task) in (select run_id, tokens, task from outputs);
delete from items where (run_id, tokens, task) in (select run_id, tokens, task from outputs);
delete from depth_attention where (run_id, tokens) in (select run_id, tokens from outputs where task = 'introspection');
delete from expert_usage where (run_id, tokens) in (select run_id, tokens from outputs where task = 'introspection');
delete from ingested where (study_id, output) in (select study_id, output from outputs);
