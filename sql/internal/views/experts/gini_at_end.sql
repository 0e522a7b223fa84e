-- One row: a model, with the Gini coefficient of its experts at the end: of the whole model, the mean over its runs.
-- Of each run the last checkpoint counts. Runs that were screened or failed do not count while the model has another run:
-- they did not come to the end.
create or replace view internal.gini_at_end as
with ends as (
    select
        expert_gini.study_id, variant, model_depth, run_id, gini,
        coalesce(status in ('screened', 'failed'), false) as ended_early
    from expert_gini
    join (select study_id, run_id, status from internal.model_runs) using (study_id, run_id)
    where depth is null
    qualify tokens = max(tokens) over (partition by study_id, run_id)
),

counted as (
    from ends
    qualify not ended_early or bool_and(ended_early) over (partition by study_id, model_depth, variant)
)

select
    study_id, variant, model_depth,
    avg(gini) as gini,
    min(gini) as lowest,
    max(gini) as highest,
    count(*) as runs
from counted
group by study_id, variant, model_depth
order by study_id, model_depth, variant;
