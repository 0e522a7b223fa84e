-- One row: a data set of a study, as in the paper's Table 4, with its licence and what curation left of the data set.
-- The revision is the commit that was read, else the pinned one. The documents read are those of the first stage,
-- documents and tokens those that the last stage kept. Each counts once: a study that mixes its sources by weights packs
-- them as often as the weights say.
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
    coalesce(sources.commit, sources.revision) as revision, -- the commit that was read, else the pinned one
    sources.licence,
    counted.documents_read, -- number, in the first stage
    counted.documents, -- number that the last stage kept
    counted.tokens, -- of those documents
    counted.tokens / sum(counted.tokens) over (partition by study_id) as share_of_tokens -- of the study, 0 to 1
from counted
full join sources using (study_id, source)
order by study_id, counted.tokens desc nulls last, source;
