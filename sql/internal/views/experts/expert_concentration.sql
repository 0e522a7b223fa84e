-- One row: the share of all selections that the most selected experts have, by depth and (depth null) in the model.
-- Lorenz curves at the latest checkpoints, turned around as in the paper's Figure 6. A curve has up to 24 points, evenly
-- spread over the logarithm of the experts: what a logarithmic axis can show.
create or replace view internal.expert_concentration as
with turned as (
    select *, experts - rank as most
    from internal.latest_expert_ranks
    where total > 0 and rank < experts
)

select study_id, variant, model_depth, run_id, tokens, depth, most as experts, 1 - cumulated / total as share
from turned
where most in (1, turned.experts)
    -- The first count of experts in each of 23 equal steps of the logarithm.
    or floor(23 * ln(most) / ln(turned.experts)) > floor(23 * ln(greatest(most - 1, 1)) / ln(turned.experts))
order by study_id, run_id, tokens, depth nulls first, most;
