-- The noise of a study's mean factors; the headline's order: average accuracy, average loss, held-out documents.
select metric, seed_deviation, item_error
from study_noise
where study_id = $study and task in ('average', 'validation')
order by task, metric
limit 1
