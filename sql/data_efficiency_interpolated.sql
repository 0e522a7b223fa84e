-- The same factors as data_efficiency with the crossing interpolated in log tokens, between the last checkpoint below
-- the goal and the first at or above it: finer than the spacing of the checkpoints, at the price of an assumption.
-- baseline_tokens stays the checkpoint of LA's best: before it LA was below it by definition.
create or replace view data_efficiency_interpolated as
select
    study_id,
    depth,
    variant,
    task,
    baseline_accuracy,
    baseline_tokens,
    variant_tokens_interpolated as variant_tokens,
    factor_interpolated as factor,
    bound,
    near_chance
from efficiency_against('LA');

comment on view data_efficiency_interpolated is 'As data_efficiency, the crossing interpolated in log tokens';
