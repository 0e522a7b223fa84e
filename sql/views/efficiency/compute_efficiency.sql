-- One row: a model and task, with its factor of data_efficiency in tokens, in FLOPs and in device-seconds of training.
-- Variants are matched in FLOPs, so the first two factors are nearly equal. A variant that trains more slowly has a
-- smaller factor in seconds. Device-seconds are summed over devices, since models may train on different numbers of
-- devices. The bound holds for all three factors.
create or replace view compute_efficiency as
with costs as ( -- means over a model's runs; a run without a number of devices counts as one device
    select
        model_runs.study_id, model_runs.depth, model_runs.variant,
        avg(models.flops_per_token) as flops_per_token,
        avg(model_runs.tokens_per_second) as tokens_per_second,
        coalesce(avg(run_details.devices) filter (where model_runs.tokens_per_second is not null), 1) as devices
    from internal.model_runs
    left join models using (study_id, model_id)
    left join internal.run_details using (run_id)
    group by model_runs.study_id, model_runs.depth, model_runs.variant
)

select
    factors.study_id, factors.depth, factors.variant, factors.task,
    factors.factor as factor_tokens, -- factor in tokens, as in data_efficiency
    factors.factor * baseline.flops_per_token / own.flops_per_token as factor_flops, -- factor in FLOPs
    factors.factor * (own.tokens_per_second / own.devices)
    / (baseline.tokens_per_second / baseline.devices) as factor_seconds, -- factor in device-seconds
    factors.bound, -- as in data_efficiency
    factors.near_chance, -- whether the baseline's best is within two standard errors of chance; null: chance is unknown
    factors.baseline_tokens / baseline.tokens_per_second * baseline.devices
    as baseline_device_seconds, -- device-seconds of the baseline to its best
    factors.variant_tokens / own.tokens_per_second * own.devices
    as variant_device_seconds -- device-seconds of the variant to the baseline's best; null: never reached
from internal.score_efficiency(null) as factors
left join costs as own
    on own.study_id = factors.study_id
    and (own.depth, own.variant) is not distinct from (factors.depth, factors.variant)
left join costs as baseline
    on baseline.study_id = factors.study_id
    and (baseline.depth, baseline.variant) is not distinct from (factors.depth, factors.baseline)
where factors.measure = 'accuracy'
order by factors.study_id, factors.depth, factors.place, factors.task = 'average', factors.task;
