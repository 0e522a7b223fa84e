-- One row: a data set of a study, as in the paper's Table 4, with its licence and the size that curation left.
-- The first stage counts the documents read. The last stage counts the documents and tokens kept. Each document counts
-- once, also if the study packs it several times because of the weight of its source.
create or replace view table_4 as
with counted as (
    select
        study_id, source,
        sum(documents) filter (stage = 'documents')::bigint as documents_read,
        sum(documents) filter (stage = 'tokens' and reason = 'kept')::bigint as documents,
        sum(tokens) filter (stage = 'tokens' and reason = 'kept')::bigint as tokens
    from curation
    group by study_id, source
)

select
    study_id,
    source,
    sources.repository,
    coalesce(sources.commit, sources.revision) as revision, -- commit that was read, or else the pinned one
    sources.licence,
    counted.documents_read, -- number of documents that the first stage read
    counted.documents, -- number of documents that the last stage kept
    counted.tokens, -- number of tokens of these documents
    counted.tokens / sum(counted.tokens) over (partition by study_id) as share_of_tokens -- of the study's tokens, 0 to 1
from counted
full join sources using (study_id, source)
order by study_id, counted.tokens desc nulls last, source;
