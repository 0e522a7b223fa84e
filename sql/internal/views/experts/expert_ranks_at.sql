-- One row: an expert at one depth or (depth null) in the whole model, ranked by selections, the least selected first.
--     from internal.expert_ranks_at(true)
-- `cumulated` are the selections up to and including the expert, for Lorenz curves, Gini coefficients and diversity.
-- Experts without a row in expert_usage were never selected: they come first, without a number, after the start at 0.
create or replace macro internal.expert_ranks_at(latest) as table
with ranks as (
    select
        *,
        experts - count(*) over scope + row_number() over ordered as rank,
        sum(selections) over (ordered rows between unbounded preceding and current row) as cumulated,
        sum(selections) over scope as total
    from internal.expert_selections_at(latest)
    window
        scope as (partition by study_id, run_id, tokens, depth),
        ordered as (partition by study_id, run_id, tokens, depth order by selections, expert)
)

from ranks
union all by name
select
    study_id, model_depth, variant, run_id, tokens, depth, experts, total,
    unnest(range(min(rank))) as rank,
    0 as selections,
    0 as cumulated
from ranks
group by study_id, model_depth, variant, run_id, tokens, depth, experts, total;
