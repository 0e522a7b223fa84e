-- One row: an expert at one depth or (depth null) in the whole model, ranked by selections, the least selected first.
-- needs: expert_ranks_at
create or replace view expert_ranks as
from expert_ranks_at(false);

comment on view expert_ranks is 'Experts by selections, least selected first, with their sum so far';
