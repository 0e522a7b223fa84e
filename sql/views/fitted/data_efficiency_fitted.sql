-- One row: a model and task, with its data-efficiency factor on the fitted power laws, to 95 % of LA's rise.
-- needs: efficiency_fitted
create or replace view data_efficiency_fitted as
from efficiency_fitted('LA', 0.95);

comment on view data_efficiency_fitted is 'How many times fewer tokens than LA to 95 % of LA''s rise, on the fitted curves';
