-- The data-efficiency factors by the paper's rule: tokens at the first checkpoint at which LA has its best accuracy,
-- over tokens at the variant's first checkpoint with at least that.
--   bound 'exact'     the factor, up to the spacing of the checkpoints
--         'at least'  the variant had the goal already at its first checkpoint; on LA's own row it says that LA's best
--                     is at its first checkpoint, so that baseline_tokens is itself an upper limit
--         'at most'   the variant never reached the goal: variant_tokens is null, the factor is baseline_tokens over
--                     the tokens it trained
--         null        the variant or LA has no accuracy for the task
create or replace view data_efficiency as
select
    study_id,
    depth,
    variant,
    task,
    baseline_accuracy,
    baseline_tokens,
    variant_tokens,
    factor,
    bound,
    near_chance
from efficiency_against('LA');

comment on view data_efficiency is 'How many times fewer tokens than LA to LA''s best accuracy, at the first checkpoint';
