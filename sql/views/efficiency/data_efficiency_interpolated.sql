-- One row: a model and task, with its data-efficiency factor when the crossing is interpolated in log tokens.
-- Interpolation, between the last checkpoint below the goal and the first at or above, is finer than the spacing of the
-- checkpoints. baseline_tokens stays the checkpoint of the baseline's best: before, the baseline is below its best.
create or replace view data_efficiency_interpolated as
select
    study_id, depth, variant, task,
    baseline_value as baseline_accuracy,
    baseline_tokens, -- training tokens at the baseline's first checkpoint with its best
    variant_tokens_interpolated as variant_tokens, -- training tokens at which the variant crosses the baseline's best
    factor_interpolated as factor, -- baseline_tokens over variant_tokens
    bound, -- as in data_efficiency
    near_chance
from internal.score_efficiency(null)
where measure = 'accuracy';
