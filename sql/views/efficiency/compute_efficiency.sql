-- One row: a model and task, with its factor of data_efficiency in tokens, in FLOPs and in device-seconds of training.
-- needs: data_efficiency, model_costs, variant_order
-- Variants are matched in FLOPs, so the first two are nearly equal. A variant that trains slower for each token gains
-- less in seconds, which are those of all devices together: models need not have equally many. The bound holds for all
-- three. `baseline_device_seconds` and `variant_device_seconds` are the training times to LA's best accuracy in absolute
-- numbers; null where the variant never reaches the goal.
create or replace view compute_efficiency as
select
    factors.study_id, factors.depth, factors.variant, factors.task,
    factors.factor as factor_tokens,
    factors.factor * baseline.flops_per_token / own.flops_per_token as factor_flops,
    factors.factor * (own.tokens_per_second / own.devices)
    / (baseline.tokens_per_second / baseline.devices) as factor_seconds,
    factors.bound,
    factors.near_chance,
    factors.baseline_tokens / baseline.tokens_per_second * baseline.devices as baseline_device_seconds,
    factors.variant_tokens / own.tokens_per_second * own.devices as variant_device_seconds
from data_efficiency as factors
left join model_costs as own
    on own.study_id = factors.study_id
    and (own.depth, own.variant) is not distinct from (factors.depth, factors.variant)
left join model_costs as baseline
    on baseline.study_id = factors.study_id
    and (baseline.depth, baseline.variant) is not distinct from (factors.depth, 'LA')
order by
    factors.study_id, factors.depth, variant_order(factors.variant), factors.variant, factors.task = 'average',
    factors.task;

comment on view compute_efficiency is 'The data-efficiency factors in tokens, FLOPs and device-seconds of training';
