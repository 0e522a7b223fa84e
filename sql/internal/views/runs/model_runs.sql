-- One row: a run of a study, with the variant and depth of its model.
-- Results from elsewhere may lack the model's row or its variant: then the model's name, or the run's, is the variant,
-- so that no run is lost. `claimed_tokens` is how far the run belongs to the study, null where there is no limit: the run
-- may have gone on for another study.
create or replace view internal.model_runs as
select
    runs.study_id,
    models.depth,
    coalesce(models.variant, runs.model_id, runs.run_id) as variant,
    runs.model_id,
    runs.run_id,
    runs.seed,
    runs.status,
    runs.tokens_per_second,
    runs.mfu,
    coalesce(try_cast(try_cast(models.config as json) ->> '$.recurrent' as boolean), false) as recurrent,
    case when claiming.study_id is not null then runs.tokens end as claimed_tokens
from runs
left join models using (study_id, model_id)
left join (select distinct study_id from internal.claims) as claiming using (study_id);
