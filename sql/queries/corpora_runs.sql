-- The runs of a model.
select run_id, seed, status
from internal.model_runs
where study_id = $study and variant = $variant and depth is not distinct from $depth
order by all
