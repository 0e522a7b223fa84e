-- One row: a stage of a study, with the documents read, kept and dropped over all sources. In the order of the stages.
create or replace view funnel as
select
    study_id,
    stage,
    documents, -- number of documents that the stage read
    kept, -- number of documents that the next stage reads
    dropped, -- number of documents that the stage dropped
    share_kept, -- kept / documents, 0 to 1
    share_of_all, -- kept / documents of the first stage, 0 to 1
    characters_kept, -- number of Unicode characters of the kept questions and responses
    tokens_kept, -- number of tokens of the study's tokenizer; null before the stage tokens
    reasons -- reasons for dropped documents with their numbers, the most frequent first
from internal.stage_counts(false);
