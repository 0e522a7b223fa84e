-- One row: the share of all selections that the most selected experts have, by depth and (depth null) in the model.
-- The Lorenz curves of `expert_runs` at their latest checkpoints, turned around as in the paper's Figure 6. A curve has up
-- to 24 points, evenly spread over the logarithm of the experts: what a logarithmic axis can show.
create or replace view internal.expert_concentration as
with ranks as (
    from internal.latest_expert_ranks
    where total > 0 and run_id in (select run_id from internal.expert_runs)
),

turned as (
    select
        study_id, variant, model_depth, run_id, tokens, depth,
        experts as pool,
        experts - rank as most,
        1 - cumulated / total as share
    from ranks

    union all

    -- Counts that take in experts without a row, which were never selected.
    select
        study_id, variant, model_depth, run_id, tokens, depth,
        experts as pool,
        unnest(range(experts - min(rank) + 1, experts + 1)) as most,
        1 as share
    from ranks
    group by study_id, variant, model_depth, run_id, tokens, depth, experts
)

select study_id, variant, model_depth, run_id, tokens, depth, most as experts, share
from turned
where most in (1, pool)
    -- The first count of experts in each of 23 equal steps of the logarithm.
    or floor(23 * ln(greatest(most, 1)) / ln(pool)) > floor(23 * ln(greatest(most - 1, 1)) / ln(pool))
order by study_id, run_id, tokens, depth nulls first, experts;
