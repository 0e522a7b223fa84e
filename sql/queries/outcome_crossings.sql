-- The factors of a study by the paper's rule, as `dreamer factors` prints them.
select depth, variant, task, factor, bound, near_chance, baseline_tokens, variant_tokens, baseline_accuracy
from data_efficiency
where study_id = $study
order by depth, task = 'average' desc, task, variant
