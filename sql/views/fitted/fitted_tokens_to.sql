-- One row: a model, with the tokens that its fitted power law needs to an accuracy on a task.
-- needs: curve_tokens
--     from fitted_tokens_to('gsm8k', 0.4)
-- `bound` is 'exactly', 'at most' (the curve has the accuracy before the first checkpoint: `tokens` is that checkpoint)
-- or 'more than' the tokens of the last checkpoint (`tokens` is null: nothing is extrapolated). The interval is over
-- fitted_replicates; an end before the first checkpoint is shown as that checkpoint, one after the last as infinity.
create or replace macro fitted_tokens_to(task_name, goal) as table
with spreads as (
    select
        study_id, depth, variant,
        quantile_disc(curve_tokens(goal, floor, ceiling, scale, exponent), 0.025) as low,
        quantile_disc(curve_tokens(goal, floor, ceiling, scale, exponent), 0.975) as high
    from fitted_replicates
    where task = task_name
    group by study_id, depth, variant
),

crossings as (
    select *, curve_tokens(goal, floor, ceiling, scale, exponent) as crossing
    from fitted_curves
    where task = task_name and floor is not null
)

select
    crossings.study_id, crossings.depth, crossings.variant,
    case when crossing <= last_tokens then greatest(first_tokens, crossing) end as tokens,
    case when spreads.low > last_tokens then 'infinity' else greatest(first_tokens, spreads.low) end as low,
    case when spreads.high > last_tokens then 'infinity' else greatest(first_tokens, spreads.high) end as high,
    case
        when crossing > last_tokens then 'more than'
        when crossing < first_tokens then 'at most'
        else 'exactly'
    end as bound,
    last_tokens as tokens_trained
from crossings
left join spreads
    on spreads.study_id = crossings.study_id
    and (spreads.depth, spreads.variant) is not distinct from (crossings.depth, crossings.variant)
order by crossings.study_id, crossings.depth, tokens nulls last, crossings.variant;

comment on macro table fitted_tokens_to is
    'fitted_tokens_to(task, accuracy): the training tokens each model''s fitted curve needs to that accuracy';
