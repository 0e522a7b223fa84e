-- One row: the share of all selections that the most selected experts have, by depth and (depth null) in the model.
-- needs: expert_lorenz_at, expert_runs
-- The Lorenz curves of `expert_runs` at their latest checkpoints, turned around as in the paper's Figure 6. A curve has up
-- to 24 points, evenly spread over the logarithm of the experts: what a logarithmic axis can show.
create or replace view expert_concentration as
with turned as (
    select
        study_id, variant, model_depth, run_id, tokens, depth,
        max(rank) over curve - rank as experts,
        max(rank) over curve as pool,
        1 - selection_share as share
    from expert_lorenz_at(true)
    where run_id in (select run_id from expert_runs)
    window curve as (partition by study_id, run_id, tokens, depth)
)

select study_id, variant, model_depth, run_id, tokens, depth, experts, share
from turned
where experts in (1, pool)
    -- The first count of experts in each of 23 equal steps of the logarithm.
    or floor(23 * ln(greatest(experts, 1)) / ln(pool)) > floor(23 * ln(greatest(experts - 1, 1)) / ln(pool))
order by study_id, run_id, tokens, depth nulls first, experts;

comment on view expert_concentration is 'Share of the selections of the most selected experts, for a logarithmic axis';
