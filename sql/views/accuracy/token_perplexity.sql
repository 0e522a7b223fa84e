-- One row: the perplexity of a run at a checkpoint, on a text. Lower is better.
-- needs: chosen_metric, model_runs
create or replace view token_perplexity as
select
    model_runs.* exclude (tokens_per_second, mfu, config),
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
