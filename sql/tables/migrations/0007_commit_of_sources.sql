-- Adds the commit whose files were read. Rows of before keep the pinned revision alone.
alter table if exists sources add column if not exists commit varchar;
