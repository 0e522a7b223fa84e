-- The factors of a study by the paper's rule, as `dreamer run` prints them at its end.
select depth, variant, task, baseline_accuracy, baseline_tokens, variant_tokens, factor, bound, near_chance
from data_efficiency
where study_id = $study
order by depth, task = 'average' desc, task, variant
