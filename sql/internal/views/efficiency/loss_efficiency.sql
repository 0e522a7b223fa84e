-- One row: a model and task, with its factor by the paper's rule for the loss: tokens to the baseline's lowest loss.
-- The columns are those of data_efficiency; a loss has no chance level.
create or replace view internal.loss_efficiency as
select
    study_id, depth, variant, task,
    baseline_value as baseline_loss,
    baseline_tokens,
    variant_tokens,
    factor,
    bound,
    near_chance
from internal.score_efficiency(null)
where measure = 'loss';
