-- Adds which weights of a checkpoint were evaluated. The new table of version 3 is made by sql/tables.
alter table if exists evaluation_versions add column if not exists weights varchar;
