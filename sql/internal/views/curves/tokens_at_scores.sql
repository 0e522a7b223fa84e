-- One row: a score and a model of a depth, with the tokens at which the model first had the score.
-- All models of a depth are read at the same 101 scores of a task and metric, in equal steps from the easiest (step 0): the
-- lowest score that any model began with, or the most that guessing may reach where that is better. The last one is the
-- best score of all. `tokens` is null where the model never had the score, and at most this many where its first
-- checkpoint had the score (`at_first`).
create or replace view internal.tokens_at_scores as
with models as (
    select
        study_id, depth, variant, task, measure,
        arg_min(score, tokens) as first_score,
        max(score) as best_score
    from internal.score_curves
    group by study_id, depth, variant, task, measure
),

scales as (
    select
        models.study_id, models.depth, models.task, models.measure,
        greatest(min(first_score), max(noise_floor)) as lowest, -- a loss has no noise floor
        max(best_score) as highest
    from models
    join internal.measured_curves as measured
        on (models.study_id, models.depth, models.variant, models.task, models.measure)
            is not distinct from (measured.study_id, measured.depth, measured.variant, measured.task, measured.metric)
    group by models.study_id, models.depth, models.task, models.measure
),

goals as (
    select *, lowest + (highest - lowest) * step / 100 as goal
    from scales
    cross join range(0, 101) as steps(step)
    where lowest < highest
),

crossings as (
    select
        goals.study_id, goals.depth, goals.task, goals.measure, step, curves.variant,
        best_before is null as at_first,
        internal.log_crossing(tokens_before, best_before, tokens, score, goal) as tokens
    from goals
    join internal.score_curves as curves
        on (goals.study_id, goals.depth, goals.task, goals.measure)
            is not distinct from (curves.study_id, curves.depth, curves.task, curves.measure)
        and internal.reaches(curves.score, goal)
        and not coalesce(internal.reaches(curves.best_before, goal), false)
)

select
    goals.study_id, goals.depth, goals.task,
    goals.measure as metric,
    goals.step,
    case goals.measure when 'loss' then -goal else goal end as score,
    models.variant,
    crossings.tokens,
    coalesce(crossings.at_first, false) as at_first,
    case goals.measure when 'loss' then -best_score else best_score end as best
from goals
join models
    on (goals.study_id, goals.depth, goals.task, goals.measure)
        is not distinct from (models.study_id, models.depth, models.task, models.measure)
join internal.variants
    on (variants.study_id, variants.variant) = (models.study_id, models.variant)
left join crossings
    on (crossings.study_id, crossings.depth, crossings.task, crossings.measure, crossings.step, crossings.variant)
        is not distinct from (goals.study_id, goals.depth, goals.task, goals.measure, goals.step, models.variant)
order by goals.study_id, goals.depth, goals.task, goals.measure, goals.step, place;
