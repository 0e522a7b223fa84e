-- One row: a model and task, with how many times fewer tokens the model needs to a baseline's best accuracy.
-- needs: accuracy_curve, best_accuracy, chosen_metric, log_crossing, model_runs, reaches, variant_order
--     from efficiency_against('DR')
-- The baseline has the model's depth. The goal is its best accuracy over its checkpoints, `baseline_tokens` the first
-- checkpoint with that accuracy, so that the baseline's own factor is 1. Both rules of crossing stand side by side.
create or replace macro efficiency_against(baseline_variant) as table
with study_models as (
    select study_id, depth, coalesce(variant, model_id) as variant from models
    union
    select study_id, depth, variant from model_runs
),

-- Every model on every task of its study: a model without evaluations has a row without numbers.
expected as (
    select distinct study_id, study_models.depth, study_models.variant, unnest([chosen_metric.task, 'average']) as task
    from study_models
    join chosen_metric using (study_id)
    where chosen_metric.kind = 'accuracy'
),

-- Named, so that DuckDB computes the view once.
bests as (
    from best_accuracy
),

goals as (
    from bests
    where variant = baseline_variant
),

crossings as (
    select
        curve.study_id, curve.depth, curve.variant, curve.task,
        curve.tokens,
        log_crossing(
            curve.tokens_before, curve.accuracy_before, curve.tokens, curve.accuracy, goals.accuracy
        ) as tokens_interpolated,
        curve.tokens_before is null as at_first_checkpoint
    from accuracy_curve as curve
    join goals
        on goals.study_id = curve.study_id
        and (goals.depth, goals.task) is not distinct from (curve.depth, curve.task)
    where reaches(curve.accuracy, goals.accuracy)
        and not coalesce(reaches(curve.best_before, goals.accuracy), false)
)

select
    expected.study_id, expected.depth, expected.variant, expected.task,
    goals.accuracy as baseline_accuracy,
    goals.tokens as baseline_tokens,
    crossings.tokens as variant_tokens, -- null when never reached: the last checkpoint would look like a crossing
    crossings.tokens_interpolated as variant_tokens_interpolated,
    own.tokens_trained,
    -- Never reached: more than all its tokens would be needed, which limits the factor from above.
    goals.tokens / coalesce(crossings.tokens, own.tokens_trained) as factor,
    goals.tokens / coalesce(crossings.tokens_interpolated, own.tokens_trained) as factor_interpolated,
    case
        when goals.tokens is null or own.tokens_trained is null then null -- the baseline or the variant has no curve
        when crossings.tokens is null then 'at most'
        when crossings.at_first_checkpoint then 'at least'
        else 'exact'
    end as bound,
    -- False for an unknown chance level, so that `where not near_chance` loses no rows.
    coalesce(goals.accuracy <= goals.chance + 2 * coalesce(goals.stderr, 0), false) as near_chance
from expected
left join goals
    on goals.study_id = expected.study_id
    and (goals.depth, goals.task) is not distinct from (expected.depth, expected.task)
left join bests as own
    on own.study_id = expected.study_id
    and (own.depth, own.variant, own.task) is not distinct from (expected.depth, expected.variant, expected.task)
left join crossings
    on crossings.study_id = expected.study_id
    and (crossings.depth, crossings.variant, crossings.task)
        is not distinct from (expected.depth, expected.variant, expected.task)
order by study_id, depth, variant_order(expected.variant), variant, expected.task = 'average', task;

comment on macro table efficiency_against is
    'efficiency_against(variant): token factors of every model to the best accuracy of that variant';
