-- One row: a stage of a study and a source, with the documents read, kept and dropped. In the order of the stages.
create or replace view funnel_by_source as
select
    study_id, source, stage,
    documents, -- number of documents that the stage read
    kept, dropped, share_kept, characters_kept, tokens_kept, reasons
from internal.stage_counts(true);
