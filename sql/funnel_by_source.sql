-- What every stage took in, kept and dropped of every source, in the order of the pipeline.
create or replace view funnel_by_source as
with counts as (
    select
        curation.study_id,
        curation.source,
        stages.position,
        curation.stage,
        sum(curation.documents)::bigint as documents,
        coalesce(sum(curation.documents) filter (curation.reason = 'kept'), 0)::bigint as kept,
        coalesce(sum(curation.documents) filter (curation.reason <> 'kept'), 0)::bigint as dropped,
        sum(curation.characters) filter (curation.reason = 'kept')::bigint as characters_kept,
        sum(curation.tokens) filter (curation.reason = 'kept')::bigint as tokens_kept,
        string_agg(curation.reason || ' ' || curation.documents, ', ' order by curation.documents desc, curation.reason)
            filter (curation.reason <> 'kept' and curation.documents > 0) as reasons
    from curation
    left join stages using (stage)
    group by all
)

select
    study_id,
    source,
    stage,
    documents,
    kept,
    dropped,
    kept / nullif(documents, 0) as share_kept,
    characters_kept,
    tokens_kept,
    reasons
from counts
order by study_id, source, position nulls last, documents desc, stage; -- no stage adds documents: unknown ones by size

comment on view funnel_by_source is 'Documents taken in, kept and dropped by every stage, for each source';
