-- One row: a model, with its resources in the units of the paper's Table 1 and the means of what its runs measured.
-- needs: variant_order
create or replace view table_1 as
with speeds as (
    select study_id, model_id, count(*) as runs, avg(tokens_per_second) as tokens_per_second, avg(mfu) as mfu
    from runs
    group by study_id, model_id
)

select
    study_id,
    coalesce(models.variant, model_id) as variant,
    models.depth,
    models.parameters / 1e9 as parameters_billion,
    models.flops_per_token / 1e9 as flops_billion_per_token,
    models.memory_bytes / 1e9 as memory_gigabytes,
    speeds.tokens_per_second,
    speeds.mfu,
    coalesce(speeds.runs, 0) as runs,
    model_id
from models
left join speeds using (study_id, model_id)
order by
    study_id, depth, variant_order(coalesce(models.variant, model_id)), coalesce(models.variant, model_id), model_id;

comment on view table_1 is 'Parameters, FLOPs per token, memory and speed of every model';
