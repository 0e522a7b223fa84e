-- A run may have gone on for a larger study that shares the run, or have been evaluated on more benchmarks. Results that
-- were entered by hand claim nothing: then all evaluations of their runs count.
create table if not exists internal.claims ( -- One row: an evaluation that a study claims.
    study_id varchar,
    run_id varchar,
    tokens bigint check (tokens >= 0), -- of the checkpoint
    task varchar,
    primary key (study_id, run_id, tokens, task)
);
