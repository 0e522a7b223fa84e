-- The mean factors of a study, as `dreamer run` prints them at its end, the first columns where the terminal is narrow.
select
    depth, variant, metric, task, factor, low as "95 % low", high, decided, decided_adjusted, seeds, covered, detectable,
    bound, outdated
from mean_factors_against(null)
where study_id = $study and (factor is not null or bound is not null or outdated) and (
    task in ('average', 'validation') or not exists (from internal.chosen_metric where study_id = $study and averaged)
)
order by depth, metric, task, place
