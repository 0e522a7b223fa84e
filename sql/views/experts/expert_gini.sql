-- One row: the Gini coefficient of expert selection at one depth or (depth null) in the whole model; 0 is even use.
-- needs: expert_ranks_at
create or replace view expert_gini as
select
    study_id, variant, model_depth, run_id, tokens, depth,
    2 * sum(rank * selections) / (experts * sum(selections)) - (experts + 1) / experts as gini,
    experts,
    count(*) filter (selections > 0) as experts_used,
    sum(selections)::bigint as selections
from expert_ranks_at(false)
where total > 0
group by study_id, variant, model_depth, run_id, tokens, depth, experts
order by study_id, run_id, tokens, depth nulls first;

comment on view expert_gini is 'How unevenly experts are selected, by depth and (depth null) in the model';
