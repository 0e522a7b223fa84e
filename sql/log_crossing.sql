-- Tokens at which a straight line in log tokens through two checkpoints, the first below the goal and the second at or
-- above it, meets the goal. Written so that a goal met exactly at the second checkpoint gives exactly its tokens.
-- Without a checkpoint before, the second one's tokens: nothing is extrapolated.
create or replace macro log_crossing(tokens_before, value_before, tokens_at, value_at, goal) as
    case
        when tokens_before is null then tokens_at::double
        else tokens_at * pow(
            tokens_before / tokens_at,
            greatest(0, (value_at - goal) / (value_at - value_before))
        )
    end;
