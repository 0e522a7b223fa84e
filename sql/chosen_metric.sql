-- For every task of a study, the metric and filter that is its accuracy, and the one that is its perplexity. Chosen
-- once for the whole study: models are compared on the same number or not at all.
create or replace view chosen_metric as
with present as (
    select distinct
        model_runs.study_id,
        evaluations.task,
        evaluations.metric,
        evaluations.filter
    from evaluations
    join model_runs using (run_id)
    where isfinite(evaluations.value)
        and evaluations.task <> 'average' -- that name is taken by the average curve
),

-- A listed metric is what the list says, so that a declared perplexity never becomes an accuracy.
kinds as (
    select
        present.*,
        coalesce(metrics.kind, case when benchmarks.task is not null then 'accuracy' end) as kind,
        benchmarks.task is not null as declared,
        metrics.preference
    from present
    left join metrics using (metric)
    left join benchmarks using (task, metric, filter)
),

-- The declared pair first. A study that has not evaluated it, and a task that is not declared, fall back to the order
-- of the metrics, then of the filters: the unfiltered answer, then the most lenient extraction, then by name.
chosen as (
    select *
    from kinds
    where kind is not null
    qualify row_number() over (
        partition by study_id, task, kind
        order by
            declared desc,
            preference,
            case filter when 'none' then 1 when 'flexible-extract' then 2 else 3 end,
            filter,
            metric
    ) = 1
)

select
    chosen.study_id,
    chosen.task,
    chosen.kind,
    chosen.metric,
    chosen.filter,
    chosen.declared,
    -- Whether the task is part of the average: not when the study has another task with the same items.
    chosen.kind = 'accuracy' and not exists (
        from chosen as other
        where other.study_id = chosen.study_id and other.kind = 'accuracy' and other.task = benchmarks.same_items_as
    ) as averaged,
    benchmarks.chance
from chosen
left join benchmarks using (task);

comment on view chosen_metric is 'Which metric and filter is the accuracy, and the perplexity, of each task of a study';
