-- Accuracy of trained models run at other depths than they were trained at, at the latest checkpoint evaluated so.
create or replace view depth_accuracy as
with latest as (
    select *
    from depth_evaluations
    where isfinite(value)
    qualify tokens = max(tokens) over (partition by run_id)
)

select
    model_runs.study_id,
    model_runs.model_id,
    model_runs.variant,
    model_runs.depth as trained_depth,
    latest.depth,
    model_runs.run_id,
    latest.tokens,
    latest.task,
    latest.value as accuracy,
    latest.stderr,
    latest.items,
    coalesce(latest.chance, chosen_metric.chance) as chance
from latest
join model_runs using (run_id)
join chosen_metric
    on chosen_metric.study_id = model_runs.study_id
    and chosen_metric.task = latest.task
    and chosen_metric.metric = latest.metric
    and chosen_metric.filter = latest.filter
    and chosen_metric.kind = 'accuracy'
order by
    model_runs.study_id,
    trained_depth,
    variant_order(model_runs.variant),
    model_runs.variant,
    model_runs.run_id,
    latest.task,
    latest.depth;

comment on view depth_accuracy is 'Accuracy of trained models run at other depths, at their latest checkpoint';
