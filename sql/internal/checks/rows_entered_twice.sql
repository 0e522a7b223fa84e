-- One row: a row of a large table that is stored more than once. Must be empty.
create or replace view internal.rows_entered_twice as
from internal.rows_entered_twice_at(false);
