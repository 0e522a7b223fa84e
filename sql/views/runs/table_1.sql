-- One row: a model, with its resources in the units of the paper's Table 1 and the means of what its runs measured.
create or replace view table_1 as
with speeds as (
    select study_id, model_id, count(*) as runs, avg(tokens_per_second) as tokens_per_second, avg(mfu) as mfu
    from runs
    group by study_id, model_id
)

select
    models.study_id,
    variants.variant,
    models.depth,
    models.parameters / 1e9 as parameters_billion, -- 10^9
    models.flops_per_token / 1e9 as flops_billion_per_token, -- 10^9 FLOPs (2 a multiply-add), forward
    models.memory_bytes / 1e9 as memory_gigabytes, -- 10^9 bytes
    speeds.tokens_per_second, -- of training, mean over the runs
    speeds.mfu, -- mean over the runs, 0 to 1
    coalesce(speeds.runs, 0) as runs, -- number
    models.model_id
from models
join internal.variants
    on variants.study_id = models.study_id and variants.variant = coalesce(models.variant, models.model_id)
left join speeds on speeds.study_id = models.study_id and speeds.model_id = models.model_id
order by models.study_id, depth, variants.place, models.model_id;
