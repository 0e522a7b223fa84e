-- The tokens at which a straight line in log tokens between two checkpoints meets a goal.
-- The first checkpoint is below the goal, the second at or above the goal; met exactly there, the goal has exactly the
-- second one's tokens. Without a first checkpoint the result is the second one's tokens: nothing is extrapolated.
create or replace macro internal.log_crossing(tokens_before, value_before, tokens_at, value_at, goal) as
    coalesce(
        tokens_at * pow(tokens_before / tokens_at, greatest(0, (value_at - goal) / (value_at - value_before))),
        tokens_at
    );
