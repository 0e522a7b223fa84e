-- One row: the selections of an expert of a run at a checkpoint, at one depth or (depth null) in the whole model.
--     from internal.expert_selections_at(true)
-- Of every checkpoint, or of each run's latest one alone: chosen here, before anything is counted, which at the paper's
-- size is ten times as fast as choosing afterwards.
-- A recurrent model has one pool of experts for all depths, a layered model (also one without a configuration) a pool for
-- each layer. `experts` is the size of the pool, or of all pools for the whole model. Experts that were
-- never selected may have no row: the configured number counts them.
create or replace macro internal.expert_selections_at(latest) as table
with run_kinds as (
    select
        study_id, depth, variant, run_id,
        coalesce(try_cast(try_cast(config as json) ->> '$.recurrent' as boolean), false) as recurrent,
        try_cast(try_cast(config as json) ->> '$.experts' as bigint) as configured,
        claimed_tokens
    from internal.model_runs
),

checkpoints_of_experts as (select distinct run_id, tokens from expert_usage),

-- The latest checkpoint that a study claims of its run; of a run that no study names, the latest.
ends as (
    select run_kinds.study_id, run_id, max(tokens) as tokens
    from checkpoints_of_experts
    left join run_kinds using (run_id)
    where tokens <= coalesce(claimed_tokens, tokens)
    group by run_kinds.study_id, run_id
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
        expert_usage.selections,
        run_kinds.configured
    from expert_usage
    left join run_kinds using (run_id) -- experts of a run that no study names are kept
    where expert_usage.tokens <= coalesce(run_kinds.claimed_tokens, expert_usage.tokens)
        and (not latest or (coalesce(run_kinds.study_id, ''), expert_usage.run_id, expert_usage.tokens)
            in (select (coalesce(study_id, ''), run_id, tokens) from ends))
),

in_pools as (
    select
        study_id, model_depth, variant, run_id, tokens, pool, expert, configured,
        sum(selections)::bigint as selections
    from usage
    group by all
),

counted as (
    select * exclude (configured) from usage
    union all by name
    select * exclude (pool, configured) from in_pools
),

pools as (
    select study_id, run_id, tokens, pool, greatest(count(*), any_value(configured)) as experts
    from in_pools
    group by study_id, run_id, tokens, pool
),

-- A row with the null pool is the whole model's; where that is the only pool, both are one row.
sizes as (
    from pools
    union
    select study_id, run_id, tokens, null, sum(experts)::bigint from pools group by study_id, run_id, tokens
)

select
    counted.* exclude (pool),
    sizes.experts
from counted
join sizes
    on sizes.run_id = counted.run_id
    and sizes.tokens = counted.tokens
    and (sizes.study_id, sizes.pool) is not distinct from (counted.study_id, counted.pool);
