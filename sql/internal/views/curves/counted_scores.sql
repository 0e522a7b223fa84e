-- One row: a score of a run that counts in the curves of its model.
-- A curve has a point where all of its runs have a checkpoint, so runs that ended early would cut the curve short: a
-- screened run, in whose place another seed went on, and a failed one. A run under way counts while no run of its model
-- has ended. A checkpoint before training has no place on a logarithmic axis.
create or replace view internal.counted_scores as
with ending as (
    select *, coalesce(status in ('waiting', 'training', 'evaluating'), false) as under_way
    from internal.token_scores
    where tokens > 0 and (status is null or status not in ('screened', 'failed'))
)

select * exclude (under_way)
from ending
qualify not under_way or bool_and(under_way) over (partition by study_id, depth, variant);
