-- Gini coefficient of expert selection, at each depth and (depth null) in the whole model: 0 is even use.
create or replace view expert_gini as
select
    study_id,
    any_value(variant) as variant,
    any_value(model_depth) as model_depth,
    run_id,
    tokens,
    depth,
    2 * sum(rank * selections) / (any_value(experts) * sum(selections))
        - (any_value(experts) + 1) / any_value(experts) as gini,
    any_value(experts) as experts,
    count(*) filter (selections > 0) as experts_used,
    sum(selections)::bigint as selections
from expert_ranks
where total > 0
group by study_id, run_id, tokens, depth
order by study_id, run_id, tokens, depth nulls first;

comment on view expert_gini is 'How unevenly experts are selected, by depth and (depth null) in the model';
