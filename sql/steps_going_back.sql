-- A run among those just entered whose tokens go back from one step to the next, for results.ingest.
with run_steps as (
    select run_id, step, tokens, lag(tokens) over (partition by run_id order by step) as tokens_before
    from steps
    where run_id in (select run_id from incoming) and tokens is not null
)

select run_id, tokens_before, tokens, step
from run_steps
where tokens < tokens_before
order by run_id, step
limit 1
