-- The data-efficiency factors read off the fitted curves, at 95 % of LA's rise (see efficiency_fitted).
create or replace view data_efficiency_fitted as
from efficiency_fitted('LA', 0.95);

comment on view data_efficiency_fitted is 'How many times fewer tokens than LA to 95 % of LA''s rise, on the fitted curves';
