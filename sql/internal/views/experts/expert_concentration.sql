-- One row: the share of all selections that the most selected experts have, by depth and (depth null) in the model.
-- The Lorenz curves of `expert_runs` at their latest checkpoints, turned around as in the paper's Figure 6. A curve has up
-- to 24 points, evenly spread over the logarithm of the experts: what a logarithmic axis can show.
create or replace view internal.expert_concentration as
with turned as (
    select
        * replace (experts - rank + 1 as experts),
        experts as pool,
        (total - cumulated + selections) / total as share
    from internal.latest_expert_ranks
    where total > 0 and run_id in (select run_id from internal.expert_runs)
)

select study_id, variant, model_depth, run_id, tokens, depth, experts, share
from turned
where experts in (1, pool)
    -- The first count of experts in each of 23 equal steps of the logarithm.
    or floor(23 * ln(experts) / ln(pool)) > floor(23 * ln(greatest(experts - 1, 1)) / ln(pool))
order by study_id, run_id, tokens, depth nulls first, experts;
