-- One row: a model, with the Gini coefficient of its experts at the end: of the whole model, the mean over its runs.
-- Of each run the last checkpoint counts.
create or replace view internal.gini_at_end as
with ends as (
    select study_id, variant, model_depth, internal.gini(rank, selections, experts) as gini
    from internal.latest_expert_ranks
    where depth is null and total > 0
        and (study_id, run_id) in (select (study_id, run_id) from internal.ended_runs)
    group by study_id, variant, model_depth, run_id, experts
)

select
    study_id, variant, model_depth,
    avg(gini) as gini,
    min(gini) as lowest,
    max(gini) as highest,
    count(*) as runs
from ends
group by study_id, variant, model_depth
order by study_id, model_depth, variant;
