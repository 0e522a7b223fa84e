-- One row: the selections of an expert of a run at a checkpoint, at one depth or (depth null) in the whole model.
-- needs: expert_selections_at
create or replace view expert_selections as
from expert_selections_at(false);

comment on view expert_selections is 'Selections of every expert at each depth and (depth null) in the whole model';
