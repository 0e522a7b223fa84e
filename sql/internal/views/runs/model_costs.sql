-- One row: a model (a depth and variant of a study), with what a training token costs: the means over its runs.
-- A model without a number of devices counts as trained by one device.
create or replace view internal.model_costs as
select
    model_runs.study_id, model_runs.depth, model_runs.variant,
    avg(models.flops_per_token) as flops_per_token,
    avg(model_runs.tokens_per_second) as tokens_per_second,
    coalesce(avg(run_details.devices) filter (where model_runs.tokens_per_second is not null), 1) as devices
from internal.model_runs
left join models using (study_id, model_id)
left join internal.run_details using (run_id)
group by model_runs.study_id, model_runs.depth, model_runs.variant;
