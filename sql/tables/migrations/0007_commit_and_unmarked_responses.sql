-- Version 7 has two more columns in sources. Rows of before keep the pinned revision alone.
alter table if exists sources add column if not exists commit varchar;
alter table if exists sources add column if not exists unmarked bigint;
