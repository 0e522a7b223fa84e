-- One row: a stage of a study, with its documents taken in, kept and dropped over all sources, in the pipeline's order.
create or replace view funnel as
select
    study_id,
    stage,
    documents, -- number taken in
    kept, -- number of documents that went on
    dropped, -- number of documents
    share_kept, -- kept over documents, 0 to 1
    share_of_all, -- kept over the documents of the first stage, 0 to 1
    characters_kept, -- Unicode characters of questions and responses
    tokens_kept, -- of the study's tokenizer; null before the stage tokens
    reasons -- why documents were dropped, with their numbers, the most frequent first
from internal.stage_counts(false);
