-- One row: a stage of a study and a source, with its documents taken in, kept and dropped, in the pipeline's order.
-- needs: stage_counts
create or replace view funnel_by_source as
select * exclude (share_of_all)
from stage_counts(true);

comment on view funnel_by_source is 'Documents taken in, kept and dropped by every stage, for each source';
