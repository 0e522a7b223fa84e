-- The scores of single items behind the evaluations of a model that a comparison with other data may use.
select items.*
from items
semi join (
    from internal.study_evaluations
    where study_id = $study and variant = $variant and depth is not distinct from $depth
        and task in (select unnest($tasks))
) as evaluations using (run_id, tokens, task, metric, filter)
order by all
