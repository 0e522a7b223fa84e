-- How many resamples of the items each study asks for; as many as by default where its row has no such setting.
select distinct
    study_id,
    coalesce(
        try_cast(try_cast(studies.config as json) ->> '$.study.evaluation.bootstrap_replicates' as bigint), 1000
    ) as replicates
from models left join studies using (study_id)
order by all
