-- One row: a point of a Lorenz curve of expert selection (the paper's Figure 6), at one depth or in the whole model.
-- A curve goes from (0, 0) to (1, 1). It has a point for every expert, the least selected first. The diagonal is
-- even use.
-- One minus twice the area under the curve is the Gini coefficient.
create or replace view expert_lorenz as
with ranks as (
    from internal.expert_ranks_at(false)
    where total > 0
),

points as (
    from ranks
    union all by name -- the start
    select distinct study_id, variant, model_depth, run_id, tokens, depth, 0 as rank, experts, 0 as cumulated, total
    from ranks
)

select
    study_id, variant,
    model_depth, -- depth of the model
    run_id,
    tokens, -- training tokens at the checkpoint
    depth, -- depth at which experts are selected, from 1; null: the whole model
    rank, -- rank of the expert, from 1 (selected least); 0 is the start of the curve
    rank / experts as expert_share, -- share of the experts up to this rank, 0 to 1
    cumulated / total as selection_share -- share of the selections that these experts have, 0 to 1
from points
order by study_id, run_id, tokens, depth nulls first, rank;
