-- One row: a model and task, with its data-efficiency factor when the crossing is interpolated in log tokens.
-- needs: score_efficiency
-- Interpolation, between the last checkpoint below the goal and the first at or above, is finer than the spacing of the
-- checkpoints. baseline_tokens stays the checkpoint of LA's best: before that checkpoint LA is below its best.
create or replace view data_efficiency_interpolated as
select
    study_id, depth, variant, task,
    baseline_value as baseline_accuracy,
    baseline_tokens,
    variant_tokens_interpolated as variant_tokens,
    factor_interpolated as factor,
    bound,
    near_chance
from score_efficiency('LA')
where measure = 'accuracy';

comment on view data_efficiency_interpolated is 'As data_efficiency, the crossing interpolated in log tokens';
