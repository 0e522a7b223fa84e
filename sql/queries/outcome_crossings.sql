-- The ratios of a study by the paper's rule, as `dreamer factors` prints them. A bound on a factor turns with its inverse.
select
    depth, variant, task,
    1 / factor as ratio,
    case bound when 'at most' then 'at least' when 'at least' then 'at most' else bound end as bound,
    near_chance, baseline_tokens, variant_tokens, baseline_accuracy, factor
from data_efficiency
where study_id = $study
order by depth, task = 'average' desc, task, variant
