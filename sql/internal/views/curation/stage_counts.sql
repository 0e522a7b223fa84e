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
),

-- Responses without the marks of traces that their source is declared to have: kept, and told beside the reasons.
unmarked as (
    select study_id, case when by_source then source end as source, nullif(sum(unmarked), 0)::bigint as documents
    from sources
    group by all
)

select
    counts.* exclude (position, reasons),
    counts.kept / nullif(counts.documents, 0) as share_kept,
    -- Of the documents in the first stage.
    counts.kept / nullif(first_value(counts.documents) over pipeline, 0) as share_of_all,
    nullif(concat_ws(', ', counts.reasons, 'kept without marks ' || unmarked.documents), '') as reasons
from counts
left join unmarked
    on counts.stage = 'traces'
    and counts.study_id = unmarked.study_id
    and counts.source is not distinct from unmarked.source
-- Stages of other programs come last, the larger first: no stage adds documents.
window pipeline as (
    partition by counts.study_id, counts.source
    order by counts.position nulls last, counts.documents desc, counts.stage
)
order by
    counts.study_id, counts.source, counts.position nulls last, counts.documents desc, counts.stage;
