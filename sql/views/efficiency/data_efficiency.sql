-- One row: a model and task, with its data-efficiency factor by the paper's rule.
-- The factor is the tokens at the baseline's first checkpoint with its best accuracy, over the tokens at the variant's
-- first checkpoint with at least that accuracy.
--   bound 'exact'     the factor, up to the spacing of the checkpoints
--         'at least'  the variant's first checkpoint has the goal; on the baseline's own row: its first checkpoint has
--                     its best, so that baseline_tokens is an upper limit
--         'at most'   the variant never reaches the goal: variant_tokens is null, the factor is over the tokens trained
--         null        the variant or the baseline has no accuracy for the task
create or replace view data_efficiency as
select
    study_id, depth, variant, task,
    baseline_value as baseline_accuracy, -- the baseline's best over its checkpoints, 0 to 1
    baseline_tokens, -- training tokens at the baseline's first checkpoint with its best
    variant_tokens, -- training tokens at the variant's first checkpoint with at least that; null: never reached
    factor, -- baseline_tokens over variant_tokens, the paper's data efficiency
    bound, -- of the factor: 'exact', 'at least' (at its first checkpoint) or 'at most' (never reached)
    near_chance -- whether the baseline's best is within two standard errors of chance; null: chance is unknown
from internal.score_efficiency(null)
where measure = 'accuracy';
