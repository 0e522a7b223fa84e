-- One row: a model and measure (accuracy, loss) of a task, with its factor by the paper's rule against a baseline.
--     from internal.score_efficiency('DR') where measure = 'accuracy'
-- A null baseline is the study's own, at the model's depth. The goal is the baseline's best score (accuracy, or minus
-- loss), `baseline_tokens` its first checkpoint with that score, so that its own factor is 1. A model reaches the
-- goal by two rules side by side: at a checkpoint, or interpolated between two.
create or replace macro internal.score_efficiency(baseline_variant) as table
with
-- Named, so that DuckDB computes the bests once.
bests as (
    from internal.best_scores
),

goals as (
    select bests.*
    from bests
    join internal.variants using (study_id, variant)
    where variant = coalesce(baseline_variant, baseline)
),

crossings as (
    select
        curve.study_id, curve.depth, curve.variant, curve.measure, curve.task,
        curve.tokens,
        internal.log_crossing(curve.tokens_before, curve.score_before, curve.tokens, curve.score, goals.score)
            as interpolated,
        curve.tokens_before is null as at_first_checkpoint
    from internal.score_curves as curve
    join goals
        on goals.study_id = curve.study_id
        and (goals.depth, goals.measure, goals.task) is not distinct from (curve.depth, curve.measure, curve.task)
    where internal.reaches(curve.score, goals.score)
        and not coalesce(internal.reaches(curve.best_before, goals.score), false)
)

select
    expected.study_id, expected.depth, expected.variant, expected.measure, expected.task,
    case expected.measure when 'loss' then -goals.score else goals.score end as baseline_value,
    goals.tokens as baseline_tokens,
    crossings.tokens as variant_tokens, -- null when never reached: the last checkpoint would look like a crossing
    crossings.interpolated as variant_tokens_interpolated,
    -- Never reached: more than all its tokens would be needed, which limits the factor from above.
    goals.tokens / coalesce(crossings.tokens, own.tokens_trained) as factor,
    goals.tokens / coalesce(crossings.interpolated, own.tokens_trained) as factor_interpolated,
    case
        when goals.tokens is null or own.tokens_trained is null then null -- the baseline or the variant has no curve
        when crossings.tokens is null then 'at most'
        when crossings.at_first_checkpoint then 'at least'
        else 'exact'
    end as bound,
    -- False for an unknown chance level, so that `where not near_chance` loses no rows, and for losses, which have none.
    coalesce(goals.score <= goals.chance + 2 * coalesce(goals.stderr, 0), false) as near_chance,
    coalesce(baseline_variant, expected.baseline) as baseline,
    expected.place
from internal.expected_curves as expected
left join goals
    on goals.study_id = expected.study_id
    and (goals.depth, goals.measure, goals.task) is not distinct from (expected.depth, expected.measure, expected.task)
left join bests as own
    on own.study_id = expected.study_id
    and (own.depth, own.variant, own.measure, own.task)
        is not distinct from (expected.depth, expected.variant, expected.measure, expected.task)
left join crossings
    on crossings.study_id = expected.study_id
    and (crossings.depth, crossings.variant, crossings.measure, crossings.task)
        is not distinct from (expected.depth, expected.variant, expected.measure, expected.task)
order by
    expected.study_id, expected.depth, expected.place, expected.task = 'average', expected.task;
