-- One row: the selections of an expert of a run at a checkpoint, at one depth or (depth null) in the whole model.
-- needs: model_runs
-- A recurrent model has one pool of experts for all depths, a layered model a pool for each layer: as the configuration
-- says, or else the variant. `experts` is the size of the pool, or of all pools for the whole model. Experts that were
-- never selected may have no row: the configured number counts them.
create or replace view expert_selections as
with run_kinds as (
    select
        *,
        coalesce(try_cast(try_cast(config as json) ->> '$.recurrent' as boolean), variant <> 'LA') as recurrent,
        try_cast(try_cast(config as json) ->> '$.experts' as bigint) as configured
    from model_runs
),

usage as (
    select
        run_kinds.study_id,
        run_kinds.depth as model_depth,
        run_kinds.variant,
        expert_usage.run_id,
        expert_usage.tokens,
        expert_usage.depth,
        case when not run_kinds.recurrent then expert_usage.depth end as pool,
        expert_usage.expert,
        sum(expert_usage.selections)::bigint as selections,
        run_kinds.configured
    from expert_usage
    left join run_kinds using (run_id) -- experts of a run that no study names are kept
    group by all
),

by_depth as (
    select
        * exclude (configured),
        greatest(count(distinct expert) over (partition by study_id, run_id, tokens, pool), configured) as experts
    from usage
),

pools as (
    select study_id, run_id, tokens, pool, any_value(experts) as experts
    from by_depth
    group by all
),

models as (
    select study_id, run_id, tokens, sum(experts)::bigint as experts
    from pools
    group by all
),

by_model as (
    select
        by_depth.* exclude (depth, selections, experts),
        sum(by_depth.selections)::bigint as selections,
        models.experts
    from by_depth
    join models
        on models.study_id is not distinct from by_depth.study_id
        and models.run_id = by_depth.run_id
        and models.tokens = by_depth.tokens
    group by all
)

select study_id, model_depth, variant, run_id, tokens, depth, expert, selections, experts from by_depth
union all by name
select * exclude (pool) from by_model;

comment on view expert_selections is 'Selections of every expert at each depth and (depth null) in the whole model';
