-- One row: a point of a Lorenz curve of expert selection (the paper's Figure 6), by depth and (depth null) in the model.
-- needs: expert_lorenz_at
create or replace view expert_lorenz as
from expert_lorenz_at(false);

comment on view expert_lorenz is 'Share of selections against share of experts, by depth and (depth null) in the model';
