-- The learning rates of a model's runs, step by step, which say from where a rate decays.
select steps.run_id, steps.step, steps.tokens, steps.learning_rate
from steps
join internal.model_runs as runs using (run_id)
where runs.study_id = $study and runs.variant = $variant and runs.depth is not distinct from $depth
    and steps.tokens <= coalesce(runs.claimed_tokens, steps.tokens)
order by all
