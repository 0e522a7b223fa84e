-- What an experiment tracker shows of a study: some of the steps of its trainings, and its evaluations.
with trained as (
    select run_id, 'training' as task, steps.tokens, loss, steps.learning_rate, gradient_norm
    from steps
    join internal.model_runs using (run_id)
    where study_id = $study and step % $every = 0 and steps.tokens <= coalesce(claimed_tokens, steps.tokens)
),

series as (
    unpivot trained on loss, learning_rate, gradient_norm into name measure value value
    union all by name
    select run_id, task, tokens, 'accuracy' as measure, accuracy as value from token_accuracy where study_id = $study
    union all by name
    select run_id, task, tokens, 'loss' as measure, loss as value from token_loss where study_id = $study
)

select run_id, task, tokens, task || '/' || measure as name, value
from series
order by run_id, tokens, name
