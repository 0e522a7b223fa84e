-- Lorenz curves of expert selection (the paper's Figure 6): the share of selections that the least selected experts
-- have, at each depth and (depth null) in the whole model. The diagonal is even use.
create or replace view expert_lorenz as
with ranked as (
    select
        *,
        -- Experts without a row were never selected: they come first.
        experts - count(*) over scope + row_number() over ordered as rank,
        sum(selections) over (ordered rows between unbounded preceding and current row) as cumulated,
        sum(selections) over scope as total
    from expert_selections
    window
        scope as (partition by study_id, run_id, tokens, depth),
        ordered as (partition by study_id, run_id, tokens, depth order by selections, expert)
)

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
from ranked
where total > 0
order by study_id, run_id, tokens, depth nulls first, rank;

comment on view expert_lorenz is 'Share of selections against share of experts, by depth and (depth null) in the model';
