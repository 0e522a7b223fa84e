-- One row: a task of a study and a kind (accuracy, loss, perplexity), with the metric and filter that are its number.
-- The choice holds for the whole study: models are compared on one metric or not at all.
create or replace view internal.chosen_metric as
-- The kind of a listed metric is the listed one, so that a declared perplexity never becomes an accuracy.
with present as (
    select distinct
        study_id, task, metric, filter,
        coalesce(metrics.kind, case when benchmarks.task is not null then 'accuracy' end) as kind,
        benchmarks.task is not null as declared,
        metrics.preference
    from internal.study_evaluations
    left join internal.metrics using (metric)
    left join benchmarks using (task, metric, filter)
    where isfinite(value)
        and task <> 'average' -- the name of the average curve
),

-- The declared pair comes first. A study without evaluations of that pair, and an undeclared task, take the first
-- metric by preference, then the first filter: the unfiltered answer, the most lenient extraction, the first name.
chosen as (
    select *
    from present
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
),

tasks as (
    select
        chosen.* exclude (declared, preference),
        benchmarks.chance,
        benchmarks.trivial,
        coalesce('family ' || benchmarks.family, chosen.task) as asked_for,
        -- The tasks of the averages: all with an accuracy, but for a task whose items another task of the study has.
        -- Bits per byte of a text and of gold answers have no common mean.
        (chosen.kind = 'accuracy' or chosen.metric = 'gold_bits_per_byte')
            and bool_or(chosen.kind = 'accuracy') over (partition by chosen.study_id, chosen.task)
            and not exists (
                from chosen as other
                where other.study_id = chosen.study_id and other.kind = 'accuracy'
                    and other.task = benchmarks.same_items_as
            ) as averaged
    from chosen
    left join benchmarks using (task)
)

-- The average is over families of benchmarks, each once: two tasks that ask for one skill are half each.
select
    * exclude (asked_for),
    case when count(*) over family = 1 then task else substr(asked_for, 8) end as family,
    case when averaged then 1 / count(*) over family / count(distinct asked_for) over average end as weight
from tasks
window
    average as (partition by study_id, kind, averaged),
    family as (partition by study_id, kind, averaged, asked_for);
