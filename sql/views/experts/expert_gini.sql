-- One row: the Gini coefficient of expert selection at one depth, or in the whole model (depth null). 0 is even use.
create or replace view expert_gini as
select
    study_id,
    variant,
    model_depth, -- depth of the model
    run_id,
    tokens, -- training tokens at the checkpoint
    depth, -- depth at which experts are selected, from 1; null: the whole model
    internal.gini(rank, selections, experts) as gini, -- Gini coefficient, from 0 (even use) to 1
    experts, -- number of experts in the pool
    count(*) filter (selections > 0) as experts_used, -- number of experts that were selected at least once
    sum(selections)::bigint as selections
from internal.expert_ranks_at(false)
where total > 0
group by study_id, variant, model_depth, run_id, tokens, depth, experts
order by study_id, run_id, tokens, depth nulls first;
