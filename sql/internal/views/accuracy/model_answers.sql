-- One row: a model and an item of a benchmark, with the answer of most of its seeds at the last checkpoint with answers.
create or replace view internal.model_answers as
with latest as (
    select model_runs.study_id, model_runs.depth, model_runs.variant, model_runs.seed, answers.*
    from answers
    join internal.model_runs using (run_id)
    where answers.tokens <= coalesce(model_runs.claimed_tokens, answers.tokens)
    qualify answers.tokens = max(answers.tokens) over (partition by model_runs.study_id, run_id)
)

select
    study_id, latest.depth, latest.variant, task, latest.item_id,
    any_value(latest.question) as question,
    any_value(latest.gold) as gold,
    mode(latest.text order by latest.seed) as text,
    avg(items.value) as share_right, -- of the seeds
    count(*) as seeds,
    max(share_right) over item - min(share_right) over item as apart -- how far models of one depth differ
from latest
join items using (run_id, tokens, task, item_id)
join internal.chosen_metric using (study_id, task, metric, filter)
where chosen_metric.kind = 'accuracy' and isfinite(items.value)
group by study_id, latest.depth, latest.variant, task, latest.item_id
window item as (partition by study_id, latest.depth, task, latest.item_id);
