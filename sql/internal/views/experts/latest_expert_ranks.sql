-- One row: an expert at one depth or (depth null) in the whole model at its run's latest checkpoint, as in expert_ranks_at.
create or replace view internal.latest_expert_ranks as
from internal.expert_ranks_at(true);
