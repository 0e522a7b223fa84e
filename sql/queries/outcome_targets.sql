-- The tokens of each model to the scores that were fixed in advance, as `dreamer factors` prints them.
select
    depth, variant, task, metric,
    score_high as score,
    baseline_tokens, variant_tokens,
    ratio, low, high
from token_ratios_against(null)
where study_id = $study and in_advance
order by depth, metric, task, place
