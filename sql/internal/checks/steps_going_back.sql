-- One row: a step at which a run has seen fewer tokens than at the step before. Must be empty.
-- A constraint sees one row at a time and DuckDB has no triggers: ingest refuses such steps by this view, and rows
-- inserted by hand show here.
create or replace view internal.steps_going_back as
select run_id, lag(tokens) over (partition by run_id order by step) as tokens_before, tokens, step
from steps
where tokens is not null
qualify tokens < tokens_before
order by run_id, step;
