-- One row: a model, with the tokens that the model needs to an accuracy on a task.
--     from tokens_to('gsm8k', 0.4)
-- `bound` is 'exactly' (up to the spacing of the checkpoints), 'at most' (the first checkpoint has the accuracy), or
-- 'more than' (never reached: `tokens` is null and more than `tokens_trained` are needed).
create or replace macro tokens_to(task_name, goal) as table
with crossings as (
    select
        study_id, depth, variant,
        tokens,
        internal.log_crossing(tokens_before, accuracy_before, tokens, accuracy, goal) as tokens_interpolated,
        case when tokens_before is null then 'at most' else 'exactly' end as bound
    from internal.accuracy_curve
    where task = task_name and internal.reaches(accuracy, goal) and not coalesce(internal.reaches(best_before, goal), false)
)

select
    models.study_id, models.depth, models.variant,
    crossings.tokens,
    crossings.tokens_interpolated,
    coalesce(crossings.bound, 'more than') as bound,
    models.tokens_trained,
    models.accuracy as best_accuracy
from best_accuracy as models
left join crossings
    on crossings.study_id = models.study_id
    and (crossings.depth, crossings.variant) is not distinct from (models.depth, models.variant)
where models.task = task_name
order by models.study_id, models.depth, crossings.tokens nulls last, models.variant;
