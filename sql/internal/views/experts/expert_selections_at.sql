-- One row: the selections of an expert of a run at a checkpoint, at one depth or (depth null) in the whole model.
--     from internal.expert_selections_at(true)
-- Of every checkpoint, or of each run's latest one alone: chosen here, before anything is counted, which at the paper's
-- size is ten times as fast as choosing afterwards.
-- A recurrent model has one pool of experts for all depths, a layered model (also one without a configuration) a pool for
-- each layer. `experts` is the size of the pool, or of all pools for the whole model. Experts that were
-- never selected may have no row: the configured number counts them.
create or replace macro internal.expert_selections_at(latest) as table
with usage as (
    select
        model_runs.study_id,
        model_runs.depth as model_depth,
        model_runs.variant,
        expert_usage.*,
        case when not model_runs.recurrent then expert_usage.depth end as pool,
        model_runs.experts as configured
    from expert_usage
    left join internal.model_runs using (run_id) -- experts of a run that no study names are kept
    where expert_usage.tokens <= coalesce(model_runs.claimed_tokens, expert_usage.tokens)
    qualify not latest or expert_usage.tokens = max(expert_usage.tokens) over (partition by study_id, run_id)
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
    on (sizes.study_id, sizes.run_id, sizes.tokens, sizes.pool)
        is not distinct from (counted.study_id, counted.run_id, counted.tokens, counted.pool);
