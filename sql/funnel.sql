-- What every stage took in, kept and dropped, over all sources, in the order of the pipeline.
create or replace view funnel as
with reasons as (
    select
        study_id,
        stage,
        reason,
        sum(documents)::bigint as documents,
        sum(characters)::bigint as characters,
        sum(tokens)::bigint as tokens
    from curation
    group by study_id, stage, reason
),

counts as (
    select
        study_id,
        stages.position,
        stage,
        sum(reasons.documents)::bigint as documents,
        coalesce(sum(reasons.documents) filter (reasons.reason = 'kept'), 0)::bigint as kept,
        coalesce(sum(reasons.documents) filter (reasons.reason <> 'kept'), 0)::bigint as dropped,
        sum(reasons.characters) filter (reasons.reason = 'kept')::bigint as characters_kept,
        sum(reasons.tokens) filter (reasons.reason = 'kept')::bigint as tokens_kept,
        string_agg(reasons.reason || ' ' || reasons.documents, ', ' order by reasons.documents desc, reasons.reason)
            filter (reasons.reason <> 'kept' and reasons.documents > 0) as reasons
    from reasons
    left join stages using (stage)
    group by study_id, stages.position, stage
)

select
    study_id,
    stage,
    documents,
    kept,
    dropped,
    kept / nullif(documents, 0) as share_kept,
    -- Of the documents that entered the study's first stage.
    kept / nullif(first_value(documents) over pipeline, 0) as share_of_all,
    characters_kept,
    tokens_kept,
    reasons
from counts
window pipeline as (partition by study_id order by position nulls last, documents desc, stage)
order by study_id, position nulls last, documents desc, stage; -- no stage adds documents: unknown ones by size

comment on view funnel is 'Documents taken in, kept and dropped by every stage, with the reasons';
