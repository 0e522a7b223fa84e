-- One row: an expert at one depth or (depth null) in the whole model, ranked by selections, the least selected first.
-- needs: expert_selections
-- `cumulated` are the selections up to and including the expert, for Lorenz curves, Gini coefficients and diversity.
create or replace view expert_ranks as
select
    *,
    -- Experts without a row were never selected and come first.
    experts - count(*) over scope + row_number() over ordered as rank,
    sum(selections) over (ordered rows between unbounded preceding and current row) as cumulated,
    sum(selections) over scope as total
from expert_selections
window
    scope as (partition by study_id, run_id, tokens, depth),
    ordered as (partition by study_id, run_id, tokens, depth order by selections, expert);

comment on view expert_ranks is 'Experts by selections, least selected first, with their sum so far';
