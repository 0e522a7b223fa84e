-- One row: a stage of a study (of one source, or over all sources), with its documents taken in, kept and dropped.
create or replace macro internal.stage_counts(by_source) as table
with reasons as (
    select
        study_id,
        case when by_source then source end as source,
        stage,
        reason,
        sum(documents)::bigint as documents,
        sum(characters)::bigint as characters,
        sum(tokens)::bigint as tokens
    from curation
    group by all
),

counts as (
    select
        study_id,
        source,
        list_position(['documents', 'traces', 'clean', 'deduplicate', 'decontaminate', 'tokens'], stage) as position,
        stage,
        sum(documents)::bigint as documents,
        coalesce(sum(documents) filter (reason = 'kept'), 0)::bigint as kept,
        coalesce(sum(documents) filter (reason <> 'kept'), 0)::bigint as dropped,
        sum(characters) filter (reason = 'kept')::bigint as characters_kept,
        sum(tokens) filter (reason = 'kept')::bigint as tokens_kept,
        string_agg(reason || ' ' || reasons.documents, ', ' order by reasons.documents desc, reason)
            filter (reason <> 'kept' and reasons.documents > 0) as reasons
    from reasons
    group by all
)

select
    * exclude (position),
    kept / nullif(documents, 0) as share_kept,
    -- Of the documents in the first stage.
    kept / nullif(first_value(documents) over pipeline, 0) as share_of_all
from counts
-- Stages of other programs come last, the larger first: no stage adds documents.
window pipeline as (partition by study_id, source order by position nulls last, documents desc, stage)
order by study_id, source, position nulls last, documents desc, stage;
