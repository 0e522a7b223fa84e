-- One row: the run of a model whose experts, and attention over depths, stand for all its runs.
-- The lowest seed that was neither screened nor failed, if there is one: experts of two runs have no common order, so
-- that a map over several runs would blur.
create or replace view internal.expert_runs as
select study_id, depth, variant, run_id, shared_from, shared_to
from internal.model_runs
where run_id in (select run_id from expert_usage union all select run_id from depth_attention)
qualify row_number() over (
    partition by study_id, depth, variant
    order by coalesce(status in ('screened', 'failed'), false), seed, run_id
) = 1;
