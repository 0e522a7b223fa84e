-- Of each of the `outputs` how many rows are in the tables, and a digest of these rows and of the output in the store.
-- The rows of an output have its study (or none), run, tokens and task; their order is of no account.
with entered as (
    select study_id, null as run_id, null as tokens, 'study' as task, hash(one) as row from studies as one
    union all by name select study_id, 'study' as task, hash(one) as row from curation as one
    union all by name select study_id, 'study' as task, hash(one) as row from sources as one
    union all by name select study_id, 'study' as task, hash(one) as row from models as one
    union all by name select study_id, 'tuning' as task, hash(one) as row from tuning as one
    union all by name select study_id, 'claims' as task, hash(one) as row from internal.claims as one
    union all by name select study_id, 'computed_factors' as task, hash(one) as row from internal.computed_factors as one
    union all by name select study_id, run_id, hash(one) as row from runs as one
    union all by name select run_id, hash(one) as row from internal.run_details as one
    union all by name select run_id, hash(one) as row from steps as one
    union all by name select run_id, hash(one) as row from checkpoints as one
    union all by name select run_id, tokens, task, hash(one) as row from evaluations as one
    union all by name select run_id, tokens, task, hash(one) as row from internal.evaluation_versions as one
    union all by name select run_id, tokens, task, hash(one) as row from raw_evaluations as one
    union all by name select run_id, tokens, task, hash(one) as row from depth_evaluations as one
    union all by name select run_id, tokens, task, hash(one) as row from items as one
    union all by name select run_id, tokens, task, hash(one) as row from answers as one
    union all by name select run_id, tokens, 'introspection' as task, hash(one) as row from depth_attention as one
    union all by name select run_id, tokens, 'introspection' as task, hash(one) as row from expert_usage as one
),
here as (
    select study_id, run_id, tokens, task, count(*) as rows, sum(row) as digest from entered group by all
)
select
    outputs.study_id,
    output,
    coalesce(sum(rows), 0)::bigint as rows,
    md5(concat_ws(' ', outputs.digest, sum(here.digest))) as digest
from outputs
left join here
    on outputs.run_id is not distinct from here.run_id
    and outputs.tokens is not distinct from here.tokens
    and outputs.task is not distinct from here.task
    and coalesce(here.study_id, outputs.study_id) = outputs.study_id
group by outputs.study_id, output, outputs.digest
