-- One row: a point of a Lorenz curve of expert selection (the paper's Figure 6), by depth and (depth null) in the model.
-- needs: expert_ranks_at
-- The point is the share of selections that the least selected experts have. A curve goes from (0, 0) to (1, 1) with a
-- point for every expert; the diagonal is even use. One minus twice the area under the curve is the Gini coefficient.
create or replace view expert_lorenz as
with points as (
    select study_id, variant, model_depth, run_id, tokens, depth, rank, experts, cumulated, total
    from expert_ranks_at(false)
    where total > 0

    union all

    -- The start, and the experts without a row, which were never selected and have the first ranks.
    select study_id, variant, model_depth, run_id, tokens, depth, unnest(range(min(rank))) as rank, experts, 0, total
    from expert_ranks_at(false)
    where total > 0
    group by study_id, variant, model_depth, run_id, tokens, depth, experts, total
)

select
    study_id, variant, model_depth, run_id, tokens, depth,
    rank,
    rank / experts as expert_share,
    cumulated / total as selection_share
from points
order by study_id, run_id, tokens, depth nulls first, rank;

comment on view expert_lorenz is 'Share of selections against share of experts, by depth and (depth null) in the model';
