-- How many times fewer tokens does every model need to the best accuracy of a baseline of the same depth?
--     from efficiency_against('DR')
-- The goal is the baseline's best over its checkpoints, its tokens those of the first checkpoint that has it, so the
-- baseline itself has the factor 1. data_efficiency is this for 'LA'; both rules of crossing are here side by side.
create or replace macro efficiency_against(baseline_variant) as table
with study_models as (
    select study_id, depth, coalesce(variant, model_id) as variant from models
    union
    select study_id, depth, variant from model_runs
),

study_tasks as (
    select study_id, task from chosen_metric where kind = 'accuracy'
    union
    select study_id, 'average' from chosen_metric where kind = 'accuracy'
),

-- Every model on every task of its study: what was not evaluated gives a row without numbers, never no row.
expected as (
    select study_id, study_models.depth, study_models.variant, study_tasks.task
    from study_models
    join study_tasks using (study_id)
),

bests as (
    from best_accuracy
),

goals as (
    select
        *,
        -- Nothing is known to be near an unknown chance level. False rather than null, for `where not near_chance`
        -- must not lose rows; best_accuracy shows what is known of chance and error.
        coalesce(accuracy <= chance + 2 * coalesce(stderr, 0), false) as near_chance
    from bests
    where variant = baseline_variant
),

crossings as (
    select
        curve.study_id,
        curve.depth,
        curve.variant,
        curve.task,
        curve.tokens,
        log_crossing(
            curve.tokens_before, curve.accuracy_before, curve.tokens, curve.accuracy, goals.accuracy
        ) as tokens_interpolated,
        curve.tokens_before is null as at_first_checkpoint
    from accuracy_curve as curve
    join goals
        on goals.study_id = curve.study_id
        and goals.depth is not distinct from curve.depth
        and goals.task = curve.task
    where reaches(curve.accuracy, goals.accuracy)
        and not coalesce(reaches(curve.best_before, goals.accuracy), false)
)

select
    expected.study_id,
    expected.depth,
    expected.variant,
    expected.task,
    goals.accuracy as baseline_accuracy,
    goals.tokens as baseline_tokens,
    crossings.tokens as variant_tokens, -- null when never reached: the last checkpoint would look like a crossing
    crossings.tokens_interpolated as variant_tokens_interpolated,
    own.tokens_trained,
    -- Never reached: more than all its tokens would be needed, which limits the factor from above.
    goals.tokens / coalesce(crossings.tokens, own.tokens_trained) as factor,
    goals.tokens / coalesce(crossings.tokens_interpolated, own.tokens_trained) as factor_interpolated,
    case
        when goals.tokens is null or own.tokens_trained is null then null -- one of the two has no curve: no factor
        when crossings.tokens is null then 'at most'
        when crossings.at_first_checkpoint then 'at least'
        else 'exact'
    end as bound,
    coalesce(goals.near_chance, false) as near_chance
from expected
left join goals
    on goals.study_id = expected.study_id
    and goals.depth is not distinct from expected.depth
    and goals.task = expected.task
left join bests as own
    on own.study_id = expected.study_id
    and own.depth is not distinct from expected.depth
    and own.variant = expected.variant
    and own.task = expected.task
left join crossings
    on crossings.study_id = expected.study_id
    and crossings.depth is not distinct from expected.depth
    and crossings.variant = expected.variant
    and crossings.task = expected.task
order by
    expected.study_id,
    expected.depth,
    variant_order(expected.variant),
    expected.variant,
    expected.task = 'average',
    expected.task;

comment on macro table efficiency_against is
    'efficiency_against(variant): token factors of every model to the best accuracy of that variant';
