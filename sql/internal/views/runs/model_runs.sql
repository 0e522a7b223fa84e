-- One row: a run of a study, with the variant and depth of its model.
-- Results from elsewhere may lack the model's row or its variant: then the model's name, or the run's, is the variant,
-- so that no run is lost. `claimed_tokens` is how far the run belongs to the study, null where there is no limit: the run
-- may have gone on for another study. The depths from `shared_from` to `shared_to` use the same experts; null where each
-- depth has its own: a recurrent layer's are those between prelude and coda, those of a pool of experts are all.
create or replace view internal.model_runs as
with described as (
    select *, try_cast(config as json) as described from models
),

formed as (
    select
        * exclude (described),
        coalesce(try_cast(described ->> '$.recurrent' as boolean), false) as recurrent,
        coalesce(try_cast(described ->> '$.expert_pool' as boolean), false) as expert_pool,
        coalesce(try_cast(described ->> '$.prelude' as integer), 0) as prelude,
        coalesce(try_cast(described ->> '$.coda' as integer), 0) as coda,
        try_cast(described ->> '$.depth' as integer) as layers
    from described
)

select
    runs.study_id,
    formed.depth,
    coalesce(formed.variant, runs.model_id, runs.run_id) as variant,
    runs.model_id,
    runs.run_id,
    runs.seed,
    runs.status,
    runs.tokens_per_second,
    runs.mfu,
    case when expert_pool then 1 when recurrent then prelude + 1 end as shared_from,
    case when expert_pool or (recurrent and coda = 0) then 2147483647 when recurrent then layers - coda end as shared_to,
    case when claiming.study_id is not null then runs.tokens end as claimed_tokens
from runs
left join formed using (study_id, model_id)
left join (select distinct study_id from internal.claims) as claiming using (study_id);
