-- The ratios of a study, as `dreamer run` prints them at its end, the first columns where the terminal is narrow.
select
    depth, variant, task, metric, ratio, low as "95 % low", high, reached, significant, at_least, score_low, score_high,
    seeds, detectable, factor, outdated
from token_ratios
where study_id = $study and (ratio is not null or low is not null or high is not null or at_least is not null or outdated) and (
    task in ('average', 'validation') or not exists (from internal.chosen_metric where study_id = $study and averaged)
)
order by depth, metric, task <> 'average', task <> 'validation', task, variant
