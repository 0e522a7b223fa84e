-- One row: an accuracy or loss that a model and the baseline both reach, with what training to that target costs the model.
-- The targets are those of factor_by_target. `device_seconds` are of all devices of a run together: GPU-seconds, or
-- CPU-seconds where cores train.
create or replace view internal.cost_by_target as
select
    targets.study_id, targets.depth, targets.variant, targets.task,
    targets.metric,
    targets.target,
    targets.variant_tokens as tokens,
    targets.variant_tokens / costs.tokens_per_second * costs.devices as device_seconds
from factor_by_target as targets
join internal.model_costs as costs
    on costs.study_id = targets.study_id
    and (costs.depth, costs.variant) is not distinct from (targets.depth, targets.variant);
