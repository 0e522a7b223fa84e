-- Of each of the `outputs` how many rows are in the tables, and a digest of these rows and of the output in the store.
-- The rows of an output, which are `entered`, have its study (or none), run, tokens and task; their order is of no account.
select
    outputs.study_id,
    output,
    coalesce(sum(rows), 0)::bigint as rows,
    md5(concat_ws(' ', outputs.digest, sum(here.digest))) as digest
from outputs
left join (
    select study_id, run_id, tokens, task, count(*) as rows, sum(row) as digest from entered group by all
) as here
    on outputs.run_id is not distinct from here.run_id
    and outputs.tokens is not distinct from here.tokens
    and outputs.task is not distinct from here.task
    and coalesce(here.study_id, outputs.study_id) = outputs.study_id
group by outputs.study_id, output, outputs.digest
