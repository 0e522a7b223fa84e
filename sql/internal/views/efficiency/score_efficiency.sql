-- One row: a model and measure (accuracy, loss) of a task, with its factor by the paper's rule against a baseline.
--     from internal.score_efficiency('DR') where measure = 'accuracy'
-- A null baseline is the study's own, at the model's depth. The goal is the baseline's best score (accuracy, or minus
-- loss), `baseline_tokens` its first checkpoint with that score, so that its own factor is 1. A model reaches the
-- goal by two rules side by side: at a checkpoint, or interpolated between two.
create or replace macro internal.score_efficiency(baseline_variant) as table
with points as (
    select
        expected.* replace (coalesce(baseline_variant, expected.baseline) as baseline),
        curve.* exclude (study_id, depth, variant, measure, task),
        max(curve.score) filter (expected.variant = coalesce(baseline_variant, expected.baseline)) over (
            partition by expected.study_id, expected.depth, expected.measure, expected.task
        ) as goal
    from internal.expected_curves as expected
    left join internal.score_curves as curve
        on curve.study_id = expected.study_id
        and (curve.depth, curve.variant, curve.measure, curve.task)
            is not distinct from (expected.depth, expected.variant, expected.measure, expected.task)
),

models as (
    select
        study_id, depth, variant, measure, task, place, baseline, goal,
        min(tokens) as first_tokens,
        max(tokens) as tokens_trained,
        max(score) as best,
        -- Null when never reached: the last checkpoint would look like a crossing.
        min(tokens) filter (internal.reaches(score, goal)) as variant_tokens,
        first(internal.log_crossing(tokens_before, score_before, tokens, score, goal) order by tokens)
            filter (internal.reaches(score, goal)) as variant_tokens_interpolated,
        first(chance + 2 * coalesce(stderr, 0) order by tokens) filter (internal.reaches(score, goal)) as noise
    from points
    group by all
)

select
    study_id, depth, variant, measure, task,
    case measure when 'loss' then -goal else goal end as baseline_value,
    case measure when 'loss' then -best else best end as own_value, -- its best
    max(variant_tokens) filter (variant = baseline) over pair as baseline_tokens,
    variant_tokens,
    variant_tokens_interpolated,
    -- Never reached: more than all its tokens would be needed, which limits the factor from above.
    baseline_tokens / coalesce(variant_tokens, tokens_trained) as factor,
    baseline_tokens / coalesce(variant_tokens_interpolated, tokens_trained) as factor_interpolated,
    case
        when goal is null or tokens_trained is null then null -- the baseline or the variant has no curve
        when variant_tokens is null then 'at most'
        when variant_tokens = first_tokens then 'at least'
        else 'exact'
    end as bound,
    -- Null where nobody knows what guessing scores; losses have no chance.
    case when measure = 'loss' then false else bool_or(goal <= noise) filter (variant = baseline) over pair end as near_chance,
    baseline,
    place,
    tokens_trained
from models
window pair as (partition by study_id, depth, measure, task)
order by study_id, depth, place, task = 'average', task;
