-- Perplexity against training tokens, one row for each run, checkpoint and text. Lower is better; it never enters an
-- accuracy or the average.
create or replace view token_perplexity as
select
    model_runs.study_id,
    model_runs.depth,
    model_runs.variant,
    model_runs.model_id,
    model_runs.run_id,
    model_runs.seed,
    model_runs.status,
    evaluations.task,
    evaluations.tokens,
    evaluations.value as perplexity,
    evaluations.items,
    evaluations.metric,
    evaluations.filter
from evaluations
join model_runs using (run_id)
join chosen_metric using (study_id, task, metric, filter)
where chosen_metric.kind = 'perplexity' and isfinite(evaluations.value);

comment on view token_perplexity is 'Perplexity of every run at every checkpoint, by text';
