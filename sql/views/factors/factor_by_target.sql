-- One row: an accuracy or loss that a model and the baseline both reach, with the tokens that each needs to reach it.
-- The targets are the middles of 25 equal parts of the range that both curves cover. The geometric mean of the 25
-- ratios is nearly the mean ratio of `mean_factors`. The ratios show where on the curve a model is ahead.
create or replace view factor_by_target as
with targets as (
    select
        study_id, depth, variant, baseline, task,
        metric,
        range_low + (range_high - range_low) * (part - 0.5) / 25 as target,
        target_halves[case metric when 'loss' then 26 - part else part end] as half, -- counted from the lowest score
        case metric when 'loss' then -target else target end as goal
    from mean_factors_against(null)
    cross join range(1, 26) as parts(part)
    where range_high is not null
),

-- The tokens at which the best so far of the curve of the baseline, or of the model, rises to the goal.
crossings as (
    select
        targets.*,
        curves.variant as curve,
        internal.log_crossing(curves.tokens_before, curves.best_before, curves.tokens, curves.score, goal) as tokens
    from targets
    join internal.score_curves as curves
        on curves.study_id = targets.study_id
        and (curves.depth, curves.task, curves.measure)
            is not distinct from (targets.depth, targets.task, targets.metric)
        and curves.variant in (targets.variant, targets.baseline)
        and curves.best_before < targets.goal
        and curves.score >= targets.goal
)

select
    study_id, depth, variant, task,
    metric, -- 'accuracy', or 'loss' in bits per byte
    target, -- accuracy between 0 and 1, or loss in bits per byte
    any_value(tokens) filter (curve = baseline) as baseline_tokens, -- training tokens of the baseline to the target
    any_value(tokens) filter (curve = variant) as variant_tokens, -- training tokens of the variant to the target
    variant_tokens / baseline_tokens as ratio, -- variant_tokens / baseline_tokens
    ratio * exp(-any_value(half)) as ratio_low, -- lower end of the 95 % interval of the ratio; null with one seed
    ratio * exp(any_value(half)) as ratio_high, -- upper end of the 95 % interval of the ratio
    baseline_tokens / variant_tokens as factor, -- baseline_tokens / variant_tokens
    factor * exp(-any_value(half)) as low, -- lower end of the 95 % interval of the factor; null with one seed
    factor * exp(any_value(half)) as high -- upper end of the 95 % interval of the factor
from crossings
join internal.variants using (study_id, variant, baseline)
group by study_id, depth, variant, place, task, metric, target
order by study_id, depth, place, task = 'average', task, metric, target;
