-- The tokens of each model to the baseline's best by the paper's rule, as `dreamer factors` prints them.
-- A bound on a factor turns with its inverse.
select
    depth, variant, task,
    measure as metric,
    baseline_value as best,
    baseline_tokens,
    variant_tokens,
    1 / factor as ratio,
    case bound when 'at most' then 'at least' when 'at least' then 'at most' else bound end as bound,
    case when measure = 'accuracy' then near_chance end as near_chance -- losses have no chance
from internal.score_efficiency(null)
where study_id = $study and variant <> baseline
order by depth, measure, task = 'average' desc, task, place
