-- The checkpoints that a study claims of its runs, the latest of a run last.
select
    variant, model_runs.depth, seed, status, checkpoints.tokens, step, epoch, loss, checkpoints.seconds, run_id
from checkpoints
join internal.model_runs using (run_id)
where study_id = $study and checkpoints.tokens <= coalesce(claimed_tokens, checkpoints.tokens)
order by model_runs.depth, variant, seed, checkpoints.tokens
