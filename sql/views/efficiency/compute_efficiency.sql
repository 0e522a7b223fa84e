-- One row: a model and task, with its factor of data_efficiency in tokens, in FLOPs and in seconds of training.
-- needs: data_efficiency, model_runs, variant_order
-- Variants are matched in FLOPs, so the first two are nearly equal. A variant that trains slower for each token gains
-- less in seconds. The bound holds for all three.
create or replace view compute_efficiency as
with costs as (
    select
        model_runs.study_id, model_runs.depth, model_runs.variant,
        avg(models.flops_per_token) as flops_per_token,
        avg(model_runs.tokens_per_second) as tokens_per_second
    from model_runs
    left join models using (study_id, model_id)
    group by model_runs.study_id, model_runs.depth, model_runs.variant
)

select
    factors.study_id, factors.depth, factors.variant, factors.task,
    factors.factor as factor_tokens,
    factors.factor * baseline.flops_per_token / own.flops_per_token as factor_flops,
    factors.factor * own.tokens_per_second / baseline.tokens_per_second as factor_seconds,
    factors.bound,
    factors.near_chance
from data_efficiency as factors
left join costs as own
    on own.study_id = factors.study_id
    and (own.depth, own.variant) is not distinct from (factors.depth, factors.variant)
left join costs as baseline
    on baseline.study_id = factors.study_id
    and (baseline.depth, baseline.variant) is not distinct from (factors.depth, 'LA')
order by study_id, depth, variant_order(factors.variant), variant, factors.task = 'average', task;

comment on view compute_efficiency is 'The data-efficiency factors in tokens, FLOPs and seconds of training';
