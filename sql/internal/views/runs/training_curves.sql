-- One row: a stretch of a run's training, with mean loss.
-- A training has up to 120 stretches: 80 equal parts of the logarithmic token axis of its model, cut by 40 equal parts of
-- the linear one, so that the beginning and the later half both show. All runs of a model have the same stretches.
create or replace view internal.training_curves as
with claimed as (
    select
        model_runs.study_id, model_runs.depth, model_runs.variant, model_runs.seed, model_runs.status,
        steps.*
    from steps
    join internal.model_runs using (run_id)
    where steps.tokens > 0 and steps.tokens <= coalesce(model_runs.claimed_tokens, steps.tokens)
),

ends as (
    select study_id, depth, variant, min(tokens) as first, max(tokens) as last
    from claimed
    group by study_id, depth, variant
),

placed as (
    select
        steps.*,
        -- The last token is the end of the last part, not the beginning of a part that holds one batch.
        least(79, floor(80 * ln(steps.tokens / ends.first) / greatest(ln(ends.last / ends.first), 1e-9))) as slow_part,
        least(39, floor(40 * steps.tokens / ends.last)) as even_part
    from claimed as steps
    join ends
        on ends.study_id = steps.study_id
        and (ends.depth, ends.variant) is not distinct from (steps.depth, steps.variant)
)

select
    study_id, depth, variant, run_id, seed, status,
    (100 * slow_part + even_part)::bigint as stretch,
    avg(tokens) as tokens,
    avg(loss) filter (isfinite(loss)) as loss,
    count(*) filter (not isfinite(loss)) as losses_not_finite
from placed
group by study_id, depth, variant, run_id, seed, status, stretch
order by study_id, depth, variant, seed, run_id, avg(tokens);
