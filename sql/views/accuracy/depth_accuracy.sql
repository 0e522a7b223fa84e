-- One row: the accuracy of a trained run at one depth on a task, at the latest checkpoint evaluated at several depths.
-- needs: chosen_metric, model_runs, variant_order
create or replace view depth_accuracy as
with latest as (
    select model_runs.* rename (depth as trained_depth), depth_evaluations.* exclude (run_id)
    from depth_evaluations
    join model_runs using (run_id)
    where isfinite(value) and tokens <= coalesce(claimed_tokens, tokens)
    qualify tokens = max(tokens) over (partition by study_id, run_id)
)

select
    latest.study_id, latest.model_id, latest.variant,
    latest.trained_depth,
    latest.depth,
    latest.run_id,
    latest.tokens,
    latest.task,
    latest.value as accuracy,
    latest.stderr,
    latest.items,
    coalesce(latest.chance, chosen_metric.chance) as chance
from latest
join chosen_metric using (study_id, task, metric, filter)
where chosen_metric.kind = 'accuracy'
order by study_id, trained_depth, variant_order(variant), variant, run_id, task, latest.depth;

comment on view depth_accuracy is 'Accuracy of trained models run at other depths, at their latest checkpoint';
