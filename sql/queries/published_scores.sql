-- The accuracy and loss of a study on every task at every checkpoint, with the program that measured them.
select scores.* exclude (status), harness_version, weights, parameters
from internal.token_scores as scores
left join internal.evaluation_versions using (run_id, tokens, task)
left join models on models.study_id = scores.study_id and models.model_id = scores.model_id
where scores.study_id = $study and measure in ('accuracy', 'loss') and task <> 'average'
order by run_id, tokens, task, measure
