-- One row: the layout of the tables and the version of the views that this file has (connection.py).
create table if not exists schema_version (
    version integer not null, -- of the tables (LAYOUT of definitions.py)
    digest varchar not null -- of the SQL files that made the tables, macros and views
);

comment on table schema_version is 'Which version of the program made the tables and views';
