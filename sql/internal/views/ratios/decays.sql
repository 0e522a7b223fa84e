-- One row: a model whose learning rate decays, with the tokens from where it does.
-- The last step at which a run had nearly its highest rate. A study of curves from elsewhere that says that their rates
-- have decayed at the end does not know from where: then `decay_from` is 0.
create or replace view internal.decays as
with rates as (
    select model_runs.study_id, model_runs.depth, model_runs.variant, steps.run_id, steps.tokens, steps.learning_rate
    from steps
    join internal.model_runs using (run_id)
    where steps.tokens > 0 and steps.learning_rate is not null
        and steps.tokens <= coalesce(model_runs.claimed_tokens, steps.tokens)
),

decayed as (
    select study_id, run_id, max(learning_rate) as highest, arg_max(learning_rate, tokens) as final
    from rates
    group by study_id, run_id
    having final < 0.9 * highest
),

runs_with_decay as (
    select study_id, depth, variant, run_id, max(tokens) as decay_from
    from rates
    join decayed using (study_id, run_id)
    where learning_rate > 0.99 * highest
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
