-- The rows of the view `token_ratios` of a study, in the order of its models; first the averages, then held-out losses.
select ratios.*
from token_ratios as ratios
left join internal.variants using (study_id, variant)
where study_id = $study
order by ratios.depth, place, ratios.metric, ratios.task <> 'average', ratios.task <> 'validation', ratios.task
