-- One row: a task of a study whose ratio is at one score that was fixed in advance (evaluation.target).
create or replace view internal.targets as
with settings as (
    select
        study_id,
        unnest(
            try_cast(try_cast(config as json) ->> '$.study.evaluation.target' as json[])
        ) as target
    from studies
),

given as (
    select
        study_id,
        target ->> '$.task' as task,
        target ->> '$.metric' as metric, -- 'accuracy' or 'loss'
        try_cast(target ->> '$.score' as double) as score
    from settings
),

-- The only task of an average is the average: a target of one is a target of the other.
alone as (
    select study_id, kind as metric, any_value(task) as task
    from internal.chosen_metric
    where averaged
    group by study_id, kind
    having count(*) = 1
)

from given
union
select
    given.study_id,
    case given.task when 'average' then alone.task else 'average' end as task,
    given.metric,
    given.score
from given
join alone on alone.study_id = given.study_id and alone.metric = given.metric
where given.task in ('average', alone.task);
