-- One row: a stage of a study and a source, with its documents taken in, kept and dropped, in the pipeline's order.
create or replace view funnel_by_source as
select study_id, source, stage, documents, kept, dropped, share_kept, characters_kept, tokens_kept, reasons
from internal.stage_counts(true);
