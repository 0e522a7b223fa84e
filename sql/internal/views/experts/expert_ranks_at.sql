-- One row: an expert at one depth or (depth null) in the whole model, ranked by selections, the least selected first.
--     from internal.expert_ranks_at(true)
-- `cumulated` are the selections up to and including the expert, for Lorenz curves, Gini coefficients and diversity.
create or replace macro internal.expert_ranks_at(latest) as table
select
    *,
    -- Experts without a row were never selected and come first.
    experts - count(*) over scope + row_number() over ordered as rank,
    sum(selections) over (ordered rows between unbounded preceding and current row) as cumulated,
    sum(selections) over scope as total
from internal.expert_selections_at(latest)
window
    scope as (partition by study_id, run_id, tokens, depth),
    ordered as (partition by study_id, run_id, tokens, depth order by selections, expert);
