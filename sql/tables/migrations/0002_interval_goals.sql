-- Adds the range of checkpoints that may be the baseline's best. The new tables of version 2 are made by sql/tables.
alter table factor_intervals add column if not exists goal_first bigint;
alter table factor_intervals add column if not exists goal_last bigint;
