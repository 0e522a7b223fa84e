-- One row: the perplexity of a run at a checkpoint, on a text. Lower is better.
create or replace view internal.token_perplexity as
select
    study_id, depth, variant, model_id, run_id, seed, status, task,
    tokens,
    value as perplexity,
    items,
    metric,
    filter
from internal.token_scores
where measure = 'perplexity';
