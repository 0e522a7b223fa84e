-- One row: a row of a large table that is stored more than once. Must be empty.
-- needs: rows_entered_twice_at
create or replace view rows_entered_twice as
from rows_entered_twice_at(false);

comment on view rows_entered_twice is 'Rows of items, depth_attention and expert_usage that are there twice: must be empty';
