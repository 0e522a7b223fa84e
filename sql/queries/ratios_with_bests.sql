-- The ratios of a study, each with two things about both models: the best score, and the number of seeds whose last
-- checkpoint lies above what guessing may reach. A mean over seeds does not show that only some of the seeds learned.
with
ends as (
    select study_id, depth, variant, measure as metric, task, run_id, arg_max(value, tokens) as score
    from internal.curve_points
    group by all
),

models as (
    select
        curves.study_id, curves.depth, curves.variant, curves.task, curves.metric,
        any_value(curves.best) as best,
        count_if(score > noise_floor) filter (where metric = 'accuracy') as seeds_learned -- a loss has no noise floor
    from internal.measured_curves as curves
    left join ends using (study_id, depth, variant, task, metric)
    group by all
)

select
    ratios.* exclude (study_id),
    own.best, baseline.best as baseline_best,
    own.seeds_learned, baseline.seeds_learned as baseline_seeds_learned
from token_ratios as ratios
left join models as own using (study_id, depth, variant, task, metric)
left join models as baseline
    on (baseline.study_id, baseline.depth, baseline.variant, baseline.task, baseline.metric)
    = (ratios.study_id, ratios.depth, ratios.baseline, ratios.task, ratios.metric)
where study_id = $study
order by ratios.depth, ratios.variant, ratios.task, ratios.metric
