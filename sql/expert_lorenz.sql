-- Lorenz curves of expert selection (the paper's Figure 6): the share of selections that the least selected experts
-- have, at each depth and (depth null) in the whole model. The diagonal is even use.
create or replace view expert_lorenz as
select
    study_id,
    variant,
    model_depth,
    run_id,
    tokens,
    depth,
    rank,
    rank / experts as expert_share,
    cumulated / total as selection_share
from expert_ranks
where total > 0
order by study_id, run_id, tokens, depth nulls first, rank;

comment on view expert_lorenz is 'Share of selections against share of experts, by depth and (depth null) in the model';
