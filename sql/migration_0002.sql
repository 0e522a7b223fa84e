-- Intervals say between which checkpoints the baseline's best may be. The new tables of version 2 are made by schema.sql.
alter table factor_intervals add column if not exists goal_first bigint;
alter table factor_intervals add column if not exists goal_last bigint;
