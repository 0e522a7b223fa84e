-- How a study trained each of its models: sizes and recipe as JSON, and whether the study searched the settings itself.
select
    models.depth,
    models.variant,
    models.config,
    any_value(details.recipe) as recipe,
    exists (
        from tuning_settings as searched
        where searched.study_id = models.study_id and searched.variant = models.variant
            and searched.depth is not distinct from models.depth
    ) as searched
from models
join runs using (study_id, model_id)
left join internal.run_details as details using (run_id)
where models.study_id = $study
group by all
order by min(models.place), models.variant, models.depth
