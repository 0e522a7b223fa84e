-- One row: a table, view or table macro of a results file. Run by `tables` of results.py.
with named as (
    select table_name as name, 'table' as kind, comment as description, table_oid as oid
    from duckdb_tables()
    where not internal and not temporary

    union all

    select view_name, 'view', comment, view_oid
    from duckdb_views()
    where not internal and not temporary
),

with_columns as (
    select named.*, columns.column_name, columns.column_index
    from named
    join duckdb_columns() as columns on columns.table_oid = named.oid
    where columns.database_name = current_database()
)

select name, kind, description, string_agg(column_name, ', ' order by column_index) as columns
from with_columns
group by name, kind, description

union all

select function_name, 'macro', comment, array_to_string(parameters, ', ')
from duckdb_functions()
where not internal and function_type = 'table_macro'

order by kind, name
