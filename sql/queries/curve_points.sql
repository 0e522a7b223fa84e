-- Every point of the curves of a study: a run at a checkpoint on a task, its accuracy (0 to 1) or its loss (bits per byte).
select
    'accuracy' as metric, task, depth, variant, seed, tokens, accuracy as value, stderr, items, chance, run_id, status
from token_accuracy
where study_id = $study
union all by name
select 'loss' as metric, task, depth, variant, seed, tokens, loss as value, stderr, items, run_id, status
from token_loss
where study_id = $study
order by metric, task, depth, variant, seed, tokens
