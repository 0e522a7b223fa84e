-- The ratios of a study. `is_printed` tells which of them `dreamer run` and `dreamer factors` print at their ends: the averages and
-- held-out losses, the losses on tasks that have no accuracy, and all tasks where no average is.
select
    *,
    task in ('average', 'validation')
    or not exists (
        from internal.chosen_metric as scored
        where scored.study_id = $study and scored.task = token_ratios.task and scored.kind = 'accuracy'
    )
    or not exists (from internal.chosen_metric where study_id = $study and averaged) as is_printed
from token_ratios
where study_id = $study and (ratio is not null or low is not null or high is not null or at_least is not null or outdated)
order by depth, metric, task <> 'average', task <> 'validation', task, variant
