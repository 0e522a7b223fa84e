-- One row: a model and task, with its data-efficiency factor by the paper's rule.
-- The factor divides the tokens at the baseline's first checkpoint with its best accuracy by the tokens at the
-- variant's first checkpoint with at least this accuracy.
--   bound 'exact'     the factor, up to the spacing of the checkpoints
--         'at least'  the variant's first checkpoint reaches the goal; on the baseline's row: its first checkpoint has
--                     its best, so baseline_tokens is an upper limit
--         'at most'   the variant never reaches the goal: variant_tokens is null, the factor uses the tokens trained
--         null        the variant or the baseline has no accuracy for the task
create or replace view data_efficiency as
select
    study_id, depth, variant, task,
    baseline_value as baseline_accuracy, -- best accuracy of the baseline over its checkpoints, 0 to 1
    baseline_tokens, -- training tokens at the baseline's first checkpoint with its best
    variant_tokens, -- training tokens at the variant's first checkpoint with this accuracy; null: never reached
    factor, -- baseline_tokens / variant_tokens, the paper's data efficiency
    bound, -- what the factor is: 'exact', 'at least' (reached at the first checkpoint) or 'at most' (never reached)
    near_chance -- whether the baseline's best is within two standard errors of chance; null: chance is unknown
from internal.score_efficiency(null)
where measure = 'accuracy';
