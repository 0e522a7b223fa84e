-- One row: a stretch of a run's training, with mean loss.
-- A run has up to 120 stretches: 80 equal parts of its logarithmic token axis, cut by 40 equal parts of the linear one,
-- so that the beginning and the later half both show.
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
    select study_id, run_id, min(tokens) as first, max(tokens) as last
    from claimed
    group by study_id, run_id
)

select
    study_id, depth, variant, run_id, seed, status,
    avg(steps.tokens) as tokens,
    avg(steps.loss) filter (isfinite(steps.loss)) as loss,
    count(*) filter (not isfinite(steps.loss)) as losses_not_finite
from claimed as steps
join ends using (study_id, run_id)
group by
    study_id, depth, variant, run_id, seed, status,
    -- The last token is the end of the last part, not the beginning of a part that holds one batch.
    least(79, floor(80 * ln(steps.tokens / ends.first) / greatest(ln(ends.last / ends.first), 1e-9))),
    least(39, floor(40 * steps.tokens / ends.last))
order by study_id, depth, variant, seed, run_id, avg(steps.tokens);
