-- One row: the accuracy of a trained run at one depth on a task, at the latest checkpoint evaluated at several depths.
create or replace view depth_accuracy as
with latest as (
    select model_runs.* rename (depth as trained_depth), depth_evaluations.* exclude (run_id)
    from depth_evaluations
    join internal.model_runs using (run_id)
    where isfinite(value) and tokens <= coalesce(claimed_tokens, tokens)
    qualify tokens = max(tokens) over (partition by study_id, run_id)
)

select
    study_id, latest.model_id, variant,
    latest.trained_depth, -- depth of the model in training
    latest.depth, -- depth of the model during the evaluation
    latest.run_id,
    latest.tokens, -- training tokens at the checkpoint
    latest.task,
    latest.value as accuracy, -- accuracy, 0 to 1
    latest.stderr,
    latest.items, -- number of items that were asked
    greatest(coalesce(latest.chance, chosen_metric.chance), chosen_metric.trivial)
    as chance -- accuracy of guessing, or of the best trivial rule if that is known to be better, 0 to 1
from latest
join internal.variants using (study_id, variant)
join internal.chosen_metric using (study_id, task, metric, filter)
where chosen_metric.kind = 'accuracy'
order by study_id, trained_depth, place, run_id, task, latest.depth;
