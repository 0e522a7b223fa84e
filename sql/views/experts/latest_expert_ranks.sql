-- One row: an expert at one depth or (depth null) in the whole model at its run's latest checkpoint, as in expert_ranks_at.
-- needs: expert_ranks_at
create or replace view latest_expert_ranks as
from expert_ranks_at(true);

comment on view latest_expert_ranks is 'Experts by selections at the latest checkpoint of every run';
