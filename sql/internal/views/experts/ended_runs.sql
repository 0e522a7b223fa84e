-- One row: a run whose use of experts counts in the means over the runs of its model.
-- Runs that were screened or failed do not count while the model has another run: they did not come to the end.
create or replace view internal.ended_runs as
with observed as (
    select
        study_id,
        depth as model_depth,
        variant, run_id,
        coalesce(status in ('screened', 'failed'), false) as ended_early
    from internal.model_runs
    where run_id in (select run_id from expert_usage)
)

select study_id, model_depth, variant, run_id
from observed
qualify not ended_early or bool_and(ended_early) over (partition by study_id, model_depth, variant);
