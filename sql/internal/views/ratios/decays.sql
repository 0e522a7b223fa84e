-- One row: a model whose learning rate decays, with the tokens from where it does.
-- The last step at which a run had nearly its highest rate. A study of curves from elsewhere that says that their rates
-- have decayed at the end does not know from where: then `decay_from` is 0.
create or replace view internal.decays as
with rates as (
    select
        model_runs.study_id, model_runs.depth, model_runs.variant, steps.run_id, steps.tokens, steps.learning_rate,
        max(steps.learning_rate) over run as highest,
        last_value(steps.learning_rate) over (run order by steps.tokens rows between unbounded preceding and unbounded following)
            as final
    from steps
    join internal.model_runs using (run_id)
    where steps.tokens > 0 and steps.learning_rate is not null
        and steps.tokens <= coalesce(model_runs.claimed_tokens, steps.tokens)
    window run as (partition by model_runs.study_id, steps.run_id)
),

runs_with_decay as (
    select study_id, depth, variant, run_id, max(tokens) filter (learning_rate > 0.99 * highest) as decay_from
    from rates
    where final < 0.9 * highest
    group by study_id, depth, variant, run_id
)

select study_id, depth, variant, median(decay_from) as decay_from
from runs_with_decay
group by study_id, depth, variant

union all

select distinct model_runs.study_id, model_runs.depth, model_runs.variant, 0.0
from internal.model_runs
join studies using (study_id)
where try_cast(try_cast(studies.config as json) ->> '$.decayed_at_end' as boolean);
