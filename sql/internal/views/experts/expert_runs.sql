-- One row: the run of a model whose experts stand for all its runs.
-- Not a screened or failed one if another is there, then by seed: experts of several runs have no common order, and maps
-- over several runs blur.
create or replace view internal.expert_runs as
select
    study_id, depth, variant, run_id,
    try_cast(try_cast(config as json) ->> '$.recurrent' as boolean) as recurrent
from internal.model_runs
where run_id in (select run_id from expert_usage)
qualify row_number() over (
    partition by study_id, depth, variant
    order by coalesce(status in ('screened', 'failed'), false), seed, run_id
) = 1;
