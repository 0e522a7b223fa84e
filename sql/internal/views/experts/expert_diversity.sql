-- One row: a model at one depth, with the number of experts that have 90 % of the selections, and the baseline's number there.
-- The paper's Figure 6: recurrent models use 2 to 11 times as many experts as LA of their depth. An expert selected
-- once in a million does not make a depth diverse, so only the most selected ones count. Each run's latest checkpoint
-- is taken, and several seeds are averaged.
create or replace view internal.expert_diversity as
with counted as (
    select
        study_id, model_depth, variant, run_id, depth,
        -- An expert counts when the experts selected more often do not have 90 % yet.
        count(*) filter (total - cumulated < 0.9 * total) as experts_for_90
    from internal.latest_expert_ranks
    where depth is not null and total > 0
        and (study_id, run_id) in (select (study_id, run_id) from internal.ended_runs)
    group by study_id, model_depth, variant, run_id, tokens, depth
),

models_counted as (
    select study_id, model_depth, variant, depth, avg(experts_for_90) as experts_for_90
    from counted
    group by study_id, model_depth, variant, depth
)

select
    study_id,
    model_depth as depth_of_model,
    variant,
    depth,
    experts_for_90,
    max(experts_for_90) filter (variant = baseline) over (
        partition by study_id, model_depth, depth
    ) as baseline_experts_for_90,
    experts_for_90 / baseline_experts_for_90 as ratio
from models_counted
left join internal.variants using (study_id, variant)
order by study_id, model_depth, place, depth;
