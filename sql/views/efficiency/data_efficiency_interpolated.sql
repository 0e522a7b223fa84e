-- One row: a model and task, with its data-efficiency factor if the crossing is interpolated in log tokens.
-- The crossing lies between the last checkpoint below the goal and the first checkpoint at or above the goal.
-- baseline_tokens stays the checkpoint of the baseline's best, because the baseline is below its best before.
create or replace view data_efficiency_interpolated as
select
    study_id, depth, variant, task,
    baseline_value as baseline_accuracy,
    baseline_tokens, -- training tokens at the baseline's first checkpoint with its best
    variant_tokens_interpolated as variant_tokens, -- training tokens at which the variant crosses the baseline's best
    factor_interpolated as factor, -- baseline_tokens / variant_tokens
    bound, -- as in data_efficiency
    near_chance -- whether the baseline's best is within two standard errors of chance; null: chance is unknown
from internal.score_efficiency(null)
where measure = 'accuracy';
