-- The mean factors of a study, as `dreamer run` prints them at its end.
select
    depth, variant, metric, task, factor, low as "95 % low", high, seeds, covered, decided_adjusted as decided, detectable, bound,
    outdated, bounded, baseline, missed_low, missed_high, bound_low, bound_high
from mean_factors_against(null)
where study_id = $study and (factor is not null or bound is not null or outdated) and (
    task in ('average', 'validation') or not exists (from internal.chosen_metric where study_id = $study and averaged)
)
order by depth, metric, task, place
