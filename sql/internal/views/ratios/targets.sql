-- One row: a task of a study whose ratio is at one score that was fixed in advance (evaluation.target).
create or replace view internal.targets as
with settings as (
    select
        study_id,
        unnest(
            try_cast(try_cast(config as json) ->> '$.study.evaluation.target' as json[])
        ) as target
    from studies
)

select
    study_id,
    target ->> '$.task' as task,
    target ->> '$.metric' as metric, -- 'accuracy' or 'loss'
    try_cast(target ->> '$.score' as double) as score
from settings;
