-- The evaluations of a model that a comparison with other data may use, without averages.
select
    evaluations.run_id, evaluations.tokens, evaluations.task, evaluations.metric, evaluations.filter,
    evaluations.value, evaluations.stderr, evaluations.items, evaluations.chance
from internal.study_evaluations as evaluations
where evaluations.study_id = $study
    and evaluations.variant = $variant
    and evaluations.depth is not distinct from $depth
    and evaluations.task in (select unnest($tasks))
order by all
