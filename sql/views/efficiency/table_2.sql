-- One row: a model and task, as in the paper's Table 2.
-- The row of a text has the best (lowest) perplexity. The row of a benchmark, or of the average, has the best accuracy
-- and the factor.
create or replace view table_2 as
with rows as (
    select
        study_id, depth, variant, task,
        'perplexity' as kind,
        min(value) as perplexity,
        first(tokens order by value, tokens) as best_tokens
    from internal.mean_curves
    where measure = 'perplexity'
    group by study_id, depth, variant, task

    union all by name

    select
        factors.study_id, factors.depth, factors.variant, factors.task,
        'accuracy' as kind,
        best.accuracy,
        best.tokens as best_tokens,
        factors.factor as data_efficiency,
        factors.bound,
        factors.near_chance
    from data_efficiency as factors
    left join best_accuracy as best
        on best.study_id = factors.study_id
        and (best.depth, best.variant, best.task) is not distinct from (factors.depth, factors.variant, factors.task)
)

select
    study_id, variant, rows.depth, rows.task,
    rows.perplexity, -- best (lowest) perplexity of a text; null for a benchmark
    rows.accuracy, -- best accuracy, 0 to 1; null for a text
    rows.data_efficiency, -- factor, as in data_efficiency
    rows.bound, -- as in data_efficiency
    rows.near_chance, -- whether the baseline's best is within two standard errors of chance; null: chance is unknown
    rows.best_tokens, -- training tokens at the first checkpoint with the best value
    chosen_metric.metric, -- name of the metric that is the accuracy or the perplexity
    chosen_metric.filter
from rows
join internal.variants using (study_id, variant)
left join internal.chosen_metric using (study_id, task, kind)
order by study_id, depth, place, kind desc, rows.task = 'average', task;
