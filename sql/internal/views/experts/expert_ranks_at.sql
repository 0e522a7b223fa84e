-- One row: an expert at one depth or (depth null) in the whole model, ranked by selections, the least selected first.
--     from internal.expert_ranks_at(true)
-- Of every checkpoint, or of each run's latest one alone: chosen here, before anything is counted, which at the paper's
-- size is ten times as fast as choosing afterwards.
-- A recurrent layer has one pool of experts for all its depths, and so have layers that share a pool; every other layer
-- (also of a model without a configuration) has a pool of its own. `cumulated` are the selections up to and including the expert, for Lorenz curves, Gini coefficients and
-- diversity; `experts` and `total` are the number of all experts at the depth or in the model, and their selections.
create or replace macro internal.expert_ranks_at(latest) as table
with usage as (
    select
        study_id,
        model_runs.depth as model_depth,
        variant, run_id,
        expert_usage.tokens,
        expert_usage.depth,
        case when not coalesce(expert_usage.depth between shared_from and shared_to, false) then expert_usage.depth end
        as pool,
        expert,
        selections
    from expert_usage
    join internal.model_runs using (run_id)
    where expert_usage.tokens <= coalesce(claimed_tokens, expert_usage.tokens)
        and (not latest or (study_id, run_id, expert_usage.tokens) in (
            select (study_id, run_id, max(used.tokens))
            from expert_usage as used
            join internal.model_runs using (run_id)
            where latest -- else there is nothing to look up, which the plan is to know
                and used.tokens <= coalesce(claimed_tokens, used.tokens)
            group by study_id, run_id
        ))
),

counted as (
    select * exclude (pool) from usage
    union all by name
    select study_id, model_depth, variant, run_id, tokens, expert, sum(selections)::bigint as selections
    from usage
    group by study_id, model_depth, variant, run_id, tokens, pool, expert
)

select
    *,
    count(*) over scope as experts,
    row_number() over (scope order by selections, expert) as rank,
    sum(selections) over (scope order by selections, expert rows between unbounded preceding and current row)
        as cumulated,
    sum(selections) over scope as total
from counted
window scope as (partition by study_id, run_id, tokens, depth);
