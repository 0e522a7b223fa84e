-- One row: a model, with the training tokens that it needs to reach an accuracy on a task.
--     from tokens_to('gsm8k', 0.4)
-- `bound` is 'exactly' (up to the spacing of the checkpoints), 'at most' (the first checkpoint has the accuracy), or
-- 'more than' (the model never reached the accuracy: `tokens` is null, and it needs more than `tokens_trained`).
create or replace macro tokens_to(task_name, goal) as table
select
    study_id, depth, variant,
    min(curve.tokens) filter (internal.reaches(score, goal)) as tokens,
    first(internal.log_crossing(tokens_before, score_before, curve.tokens, score, goal) order by curve.tokens)
        filter (internal.reaches(score, goal)) as tokens_interpolated,
    case
        when not internal.reaches(max(score), goal) then 'more than'
        when internal.reaches(first(score order by curve.tokens), goal) then 'at most'
        else 'exactly'
    end as bound,
    max(curve.tokens) as tokens_trained,
    max(score) as best_accuracy
from internal.score_curves as curve
where measure = 'accuracy' and task = task_name
group by study_id, depth, variant
order by study_id, depth, tokens nulls last, variant;
