-- One row: a model and task, as in the paper's Table 2.
-- needs: best_accuracy, chosen_metric, data_efficiency, mean_curves, variant_order
-- A text has its best (lowest) perplexity; a benchmark and the average curve have the best accuracy and the factor.
create or replace view table_2 as
with perplexities as (
    select study_id, depth, variant, task, min(value) as perplexity, first(tokens order by value, tokens) as best_tokens
    from mean_curves
    where measure = 'perplexity'
    group by study_id, depth, variant, task
),

accuracies as (
    select
        factors.study_id, factors.depth, factors.variant, factors.task,
        best.accuracy,
        best.tokens as best_tokens,
        factors.factor as data_efficiency,
        factors.bound,
        factors.near_chance
    from data_efficiency as factors
    left join best_accuracy as best
        on best.study_id = factors.study_id
        and (best.depth, best.variant, best.task) is not distinct from (factors.depth, factors.variant, factors.task)
),

rows as (
    select *, 'perplexity' as kind from perplexities
    union all by name
    select *, 'accuracy' as kind from accuracies
)

select
    rows.study_id, rows.variant, rows.depth, rows.task,
    rows.perplexity,
    rows.accuracy,
    rows.data_efficiency,
    rows.bound,
    rows.near_chance,
    rows.best_tokens,
    chosen_metric.metric,
    chosen_metric.filter
from rows
left join chosen_metric using (study_id, task, kind)
order by study_id, depth, variant_order(rows.variant), variant, kind desc, rows.task = 'average', task;

comment on view table_2 is 'Perplexity, best accuracy and data efficiency of every model, by task and on average';
