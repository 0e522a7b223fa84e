-- The rows of a study: data curation, models, training runs, evaluations.
-- Users' queries rely on the names, columns and order of columns of `studies` to `expert_usage`.
--
-- No table refers to another by a foreign key: rows come from files that arrive in any order, also from elsewhere.
-- Columns that are not keys may be null. Times are UTC. Shares (accuracy, chance) are between 0 and 1.

create table if not exists studies (
    study_id varchar primary key,
    name varchar,
    config varchar, -- JSON: the study file as it was run, and the versions of the packages
    code_version varchar,
    created_at timestamp
);

create table if not exists curation (
    study_id varchar,
    source varchar,
    stage varchar,
    reason varchar, -- 'kept' for documents that went on to the next stage, else why they were dropped
    documents bigint check (documents >= 0),
    characters bigint check (characters >= 0),
    tokens bigint check (tokens >= 0),
    primary key (study_id, source, stage, reason)
);

create table if not exists models (
    study_id varchar,
    model_id varchar,
    variant varchar, -- 'LA', 'DR', 'DR+DA' or the user's own name
    depth integer,
    parameters bigint,
    flops_per_token double, -- forward, mean over a generated sequence
    memory_bytes bigint,
    config varchar, -- JSON
    primary key (study_id, model_id)
);

-- A run that is part of several studies has one row for each, while its steps and evaluations are stored once.
create table if not exists runs (
    run_id varchar,
    study_id varchar,
    model_id varchar,
    seed bigint,
    -- 'complete'; 'screened' when another seed of the model went on in its place; 'failed', 'stopped' (run_details);
    -- of a study under way 'waiting', 'training', 'evaluating'
    status varchar,
    tokens bigint check (tokens >= 0),
    seconds double,
    device varchar,
    tokens_per_second double,
    mfu double,
    stream_hash varchar, -- equal for runs that saw the same tokens in the same order
    primary key (study_id, run_id)
);

create table if not exists steps (
    run_id varchar,
    step bigint,
    tokens bigint check (tokens >= 0),
    loss double,
    learning_rate double,
    gradient_norm double,
    seconds double,
    primary key (run_id, step)
);

create table if not exists evaluations (
    run_id varchar,
    tokens bigint check (tokens >= 0),
    task varchar,
    metric varchar,
    filter varchar default 'none',
    value double,
    stderr double check (stderr >= 0 or isnan(stderr)),
    items bigint check (items >= 0),
    chance double,
    task_version varchar,
    primary key (run_id, tokens, task, metric, filter)
);

-- The next three tables hold up to millions of rows and have no primary key: 1.9 million items took 201 MB and 4.1 s
-- with one, 17 MB and 0.9 s without. Instead ingest replaces all rows of an evaluation, or of a checkpoint.
create table if not exists items (
    run_id varchar not null,
    tokens bigint not null,
    task varchar not null,
    metric varchar not null,
    filter varchar not null default 'none',
    item_id varchar not null,
    value double
);

create table if not exists depth_attention (
    run_id varchar not null,
    tokens bigint not null,
    query_depth integer not null,
    key_depth integer not null,
    score double
);

create table if not exists expert_usage (
    run_id varchar not null,
    tokens bigint not null,
    depth integer not null,
    expert integer not null,
    selections bigint check (selections >= 0)
);

-- Every checkpoint that training wrote, from its checkpoint.json.
create table if not exists checkpoints (
    run_id varchar,
    tokens bigint check (tokens >= 0),
    step bigint check (step >= 0),
    epoch double, -- of the corpus, at this checkpoint
    loss double,
    seconds double, -- of training up to this checkpoint
    stream_hash varchar, -- of the tokens up to this checkpoint; runs of one seed must agree (stream_mismatches)
    primary key (run_id, tokens)
);

-- Which evaluations a study claims: a run may have gone on for a larger study that shares the run, or have been evaluated
-- on more benchmarks. Results that were entered by hand claim nothing: then all evaluations of their runs count.
create table if not exists claims (
    study_id varchar,
    run_id varchar,
    tokens bigint check (tokens >= 0), -- of the checkpoint
    task varchar,
    primary key (study_id, run_id, tokens, task)
);

-- The code, data, packages and weights of an evaluation.
create table if not exists evaluation_versions (
    run_id varchar,
    tokens bigint check (tokens >= 0),
    task varchar,
    code_version varchar,
    data_version varchar, -- of the benchmark's data
    harness_version varchar,
    packages varchar, -- JSON
    weights varchar, -- of the checkpoint: 'averaged' or 'raw'
    primary key (run_id, tokens, task)
);

-- Evaluations of a trained model at several depths, the depth of training among them (depth_accuracy).
create table if not exists depth_evaluations (
    run_id varchar,
    tokens bigint check (tokens >= 0),
    depth integer check (depth > 0), -- of the model when evaluated
    task varchar,
    metric varchar,
    filter varchar default 'none',
    value double,
    stderr double check (stderr >= 0 or isnan(stderr)),
    items bigint check (items >= 0),
    chance double,
    primary key (run_id, tokens, depth, task, metric, filter)
);

-- Evaluations of the raw weights of checkpoints whose rows in `evaluations` are of the averaged weights.
create table if not exists raw_evaluations (
    run_id varchar,
    tokens bigint check (tokens >= 0),
    task varchar,
    metric varchar,
    filter varchar default 'none',
    value double,
    stderr double check (stderr >= 0 or isnan(stderr)),
    items bigint check (items >= 0),
    chance double,
    primary key (run_id, tokens, task, metric, filter)
);

-- The data sets behind `curation`, one row for each source of a study (table_4).
create table if not exists sources (
    study_id varchar,
    source varchar,
    repository varchar,
    revision varchar, -- the pinned commit; null where the newest one was read
    licence varchar,
    commit varchar, -- whose files were read, by the record of the download; null where nothing records a commit
    unmarked bigint, -- responses kept without marks of a trace, of a source declared to have traces, with or without marks
    primary key (study_id, source)
);

-- What is known of a training run beside its row in `runs`.
create table if not exists run_details (
    run_id varchar primary key,
    devices bigint check (devices > 0), -- that trained the run together, at its end
    failure varchar -- why a run of status 'failed' ended
);

-- What of the store has rows in this file, entered in the transaction of the rows: `dreamer run` and `dreamer verify`
-- compare, so that rows which are missing or were changed are entered again.
create table if not exists ingested (
    study_id varchar,
    output varchar, -- evaluations/<key>, runs/<run_id>; 'study', 'claims' and 'computed_factors' of the study itself
    rows bigint,
    digest varchar, -- of the output in the store and of its rows here
    primary key (study_id, output)
);

comment on table studies is 'One row for each study in this file';
comment on table curation is 'Documents kept and dropped at each stage, by source and reason';
comment on table models is 'The models of each study and what they cost';
comment on table runs is 'Training runs: a model and a seed';
comment on table steps is 'Optimiser steps of each run';
comment on table evaluations is 'A task''s metric at a checkpoint of a run';
comment on table items is 'The same for each benchmark item';
comment on table depth_attention is 'Mean depth-attention scores, query depth against key depth';
comment on table expert_usage is 'How often each expert was selected at each depth';
comment on table claims is 'The evaluations that each study claims';
comment on table checkpoints is 'Every checkpoint of every run: step, epoch, loss, hash of the data seen';
comment on table evaluation_versions is 'The code, data and packages that made each evaluation';
comment on table depth_evaluations is 'A task''s metric of a trained model run at another depth';
comment on table raw_evaluations is 'A task''s metric of the raw weights, beside those of the averaged ones';
comment on table sources is 'The data sets of a study, with commit and licence';
comment on table ingested is 'What of a study''s store has its rows here, with their number and digest';
comment on table run_details is 'The number of devices of a training run, and why a failed one ended';
