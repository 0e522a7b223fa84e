-- One row: a stretch of a run's training, with mean loss and gradient norm, and the speed.
-- A run has up to 120 stretches: 80 equal parts of its logarithmic token axis, cut by 40 equal parts of the linear one,
-- so that the beginning and the later half both show. `mfu` is the mean of the run, scaled by the speed.
create or replace view internal.training_curves as
with claimed as (
    select model_runs.study_id, steps.*
    from steps
    join internal.model_runs using (run_id)
    where steps.tokens > 0 and steps.tokens <= coalesce(model_runs.claimed_tokens, steps.tokens)
),

ends as (
    select study_id, run_id, min(tokens) as first, max(tokens) as last
    from claimed
    group by study_id, run_id
),

stretches as (
    select
        steps.study_id,
        steps.run_id,
        floor(80 * ln(steps.tokens / ends.first) / greatest(ln(ends.last / ends.first), 1e-9)) as log_part,
        floor(40 * steps.tokens / ends.last) as linear_part,
        avg(steps.tokens) as tokens,
        avg(steps.loss) filter (isfinite(steps.loss)) as loss,
        avg(steps.gradient_norm) filter (isfinite(steps.gradient_norm)) as gradient_norm,
        count(*) filter (not isfinite(steps.loss)) as losses_not_finite,
        max(steps.tokens) as tokens_at_end,
        max(steps.seconds) as seconds_at_end
    from claimed as steps
    join ends using (study_id, run_id)
    group by steps.study_id, steps.run_id, log_part, linear_part
),

speeds as (
    select
        *,
        (tokens_at_end - lag(tokens_at_end) over run) / nullif(seconds_at_end - lag(seconds_at_end) over run, 0) as speed
    from stretches
    window run as (partition by study_id, run_id order by tokens)
)

select
    model_runs.study_id, model_runs.depth, model_runs.variant, model_runs.run_id, model_runs.seed, model_runs.status,
    speeds.tokens,
    speeds.loss,
    speeds.gradient_norm,
    speeds.losses_not_finite,
    speeds.speed as tokens_per_second,
    speeds.speed * model_runs.mfu / model_runs.tokens_per_second as mfu
from speeds
join internal.model_runs using (study_id, run_id)
order by study_id, depth, variant, seed, run_id, speeds.tokens;
