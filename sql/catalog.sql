-- One row: a table, view or table macro that users query. Run by `tables` of results.py.
with relations as (
    select table_name as name, 'table' as kind, comment as description, table_oid
    from duckdb_tables()
    where schema_name = 'main' and not internal and not temporary

    union all

    select view_name, 'view', comment, view_oid
    from duckdb_views()
    where schema_name = 'main' and not internal and not temporary
)

select name, kind, description, string_agg(column_name, ', ' order by column_index) as columns
from relations
join duckdb_columns() using (table_oid)
where duckdb_columns.database_name = current_database()
group by name, kind, description

union all

-- A reader's own temporary macros come on top of those in the file, and go before them.
select function_name, 'macro', arg_max(comment, database_name = 'temp'),
    arg_max(array_to_string(parameters, ', '), database_name = 'temp')
from duckdb_functions()
where schema_name = 'main' and not internal and function_type = 'table_macro'
group by function_name

order by kind, name
