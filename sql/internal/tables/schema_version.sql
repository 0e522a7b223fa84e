create table if not exists internal.schema_version ( -- One row: what made the tables and views of this file.
    version integer not null, -- of the tables (LAYOUT of definitions.py)
    digest varchar not null -- of the SQL files that made the tables, macros and views
);
