-- One row: a model and task, with its factor by the paper's rule for the loss: tokens to LA's lowest loss.
-- needs: score_efficiency
-- The columns are those of data_efficiency; a loss has no chance level.
create or replace view loss_efficiency as
select
    study_id, depth, variant, task,
    baseline_value as baseline_loss,
    baseline_tokens,
    variant_tokens,
    factor,
    bound,
    near_chance
from score_efficiency('LA')
where measure = 'loss';

comment on view loss_efficiency is 'How many times fewer tokens than LA to LA''s lowest loss, at the first checkpoint';
