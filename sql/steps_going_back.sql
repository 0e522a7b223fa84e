-- Steps at which a run has seen fewer tokens than at the step before: must be empty, for a run's tokens cannot go back.
-- A constraint sees one row at a time and DuckDB has no triggers, so rows inserted by hand are judged here; what comes
-- through results.ingest is refused by the same rule.
create or replace view steps_going_back as
with ordered as (
    select run_id, step, tokens, lag(tokens) over (partition by run_id order by step) as tokens_before
    from steps
    where tokens is not null
)

select run_id, tokens_before, tokens, step
from ordered
where tokens < tokens_before
order by run_id, step;

comment on view steps_going_back is 'Steps at which a run''s tokens go back: must be empty';
