create table if not exists internal.evaluation_versions ( -- One row: the code, data, packages and weights of an evaluation.
    run_id varchar,
    tokens bigint check (tokens >= 0),
    task varchar,
    code_version varchar,
    data_version varchar, -- of the benchmark's data
    harness_version varchar,
    packages varchar, -- JSON
    weights varchar, -- of the checkpoint: 'averaged' or 'raw', or 'branches' for those at the end of a branch
    primary key (run_id, tokens, task)
);

create table if not exists internal.run_details ( -- One row: what is known of a run beside its row in `runs`.
    run_id varchar primary key,
    devices bigint check (devices > 0), -- that trained the run together, at its end
    failure varchar, -- why a run of status 'failed' ended
    recipe varchar -- JSON: the settings of training that decide the run, but seed and tokens
);
