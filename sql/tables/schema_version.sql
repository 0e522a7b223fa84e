-- One row: the version of the tables and of the views that this file has (definitions.py).
create table if not exists schema_version (
    version integer not null, -- of the tables: the number of the newest migration
    digest varchar not null -- of the SQL files that made the tables, macros and views
);

comment on table schema_version is 'Which version of the program made the tables and views';
