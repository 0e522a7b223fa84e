-- One row: a model, with its resources in the units of the paper's Table 1, and the mean speed of its runs.
create or replace view table_1 as
select
    models.study_id,
    variants.variant,
    models.depth,
    models.parameters / 1e9 as parameters_billion, -- billions of parameters
    models.flops_per_token / 1e9 as flops_billion_per_token, -- billions of FLOPs (2 per multiply-add) of a forward pass
    models.memory_bytes / 1e9 as memory_gigabytes, -- memory in units of 10^9 bytes
    avg(runs.tokens_per_second) as tokens_per_second, -- speed of training, mean over the runs
    avg(runs.mfu) as mfu, -- share of the device's peak FLOPs that training used, mean over the runs, 0 to 1
    count(runs.run_id) as runs, -- number of runs
    models.model_id
from models
join internal.variants
    on variants.study_id = models.study_id and variants.variant = coalesce(models.variant, models.model_id)
left join runs on runs.study_id = models.study_id and runs.model_id = models.model_id
group by all
order by models.study_id, models.depth, any_value(variants.place), models.model_id;
