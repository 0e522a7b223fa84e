-- One row: an evaluation of a run of a study, if the study claims it, or claims nothing at all (claims).
create or replace view internal.study_evaluations as
select
    model_runs.* exclude (tokens_per_second, mfu, shared_from, shared_to, claimed_tokens),
    evaluations.* exclude (run_id)
from evaluations
join internal.model_runs using (run_id)
left join (select distinct study_id from internal.claims) as claiming using (study_id)
left join internal.claims using (study_id, run_id, tokens, task)
where claiming.study_id is null or claims.run_id is not null;
