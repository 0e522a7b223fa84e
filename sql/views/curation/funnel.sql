-- One row: a stage of a study, with its documents taken in, kept and dropped over all sources, in the pipeline's order.
-- needs: stage_counts
create or replace view funnel as
select * exclude (source)
from stage_counts(false);

comment on view funnel is 'Documents taken in, kept and dropped by every stage, with the reasons';
