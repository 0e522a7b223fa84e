-- One row: a model and task, with its data-efficiency factor by the paper's rule.
-- needs: score_efficiency
-- The factor is the tokens at LA's first checkpoint with its best accuracy, over the tokens at the variant's first
-- checkpoint with at least that accuracy.
--   bound 'exact'     the factor, up to the spacing of the checkpoints
--         'at least'  the variant's first checkpoint has the goal; on LA's own row: LA's first checkpoint has LA's best,
--                     so that baseline_tokens is an upper limit
--         'at most'   the variant never reaches the goal: variant_tokens is null, the factor is over the tokens trained
--         null        the variant or LA has no accuracy for the task
create or replace view data_efficiency as
select
    study_id, depth, variant, task,
    baseline_value as baseline_accuracy,
    baseline_tokens,
    variant_tokens,
    factor,
    bound,
    near_chance
from score_efficiency('LA')
where measure = 'accuracy';

comment on view data_efficiency is 'How many times fewer tokens than LA to LA''s best accuracy, at the first checkpoint';
