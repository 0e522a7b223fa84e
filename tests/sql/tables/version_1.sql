-- The tables of a results file as version 1 of the program made them, with a few rows, for the test of migrations.
create table if not exists studies (
    study_id varchar primary key,
    name varchar,
    config varchar,
    code_version varchar,
    created_at timestamp
);

create table if not exists curation (
    study_id varchar,
    source varchar,
    stage varchar,
    reason varchar,
    documents bigint check (documents >= 0),
    characters bigint check (characters >= 0),
    tokens bigint check (tokens >= 0),
    primary key (study_id, source, stage, reason)
);

create table if not exists models (
    study_id varchar,
    model_id varchar,
    variant varchar,
    depth integer,
    parameters bigint,
    flops_per_token double,
    memory_bytes bigint,
    config varchar,
    primary key (study_id, model_id)
);

create table if not exists runs (
    run_id varchar,
    study_id varchar,
    model_id varchar,
    seed bigint,
    status varchar,
    tokens bigint check (tokens >= 0),
    seconds double,
    device varchar,
    tokens_per_second double,
    mfu double,
    stream_hash varchar,
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

create table if not exists factor_intervals (
    study_id varchar not null,
    depth integer,
    variant varchar not null,
    task varchar not null,
    rule varchar not null,
    low double,
    high double,
    share_reached double,
    replicates bigint,
    seed bigint
);

create table if not exists benchmarks (
    task varchar primary key,
    metric varchar not null,
    filter varchar not null default 'none',
    chance double,
    same_items_as varchar,
    reason varchar
);

create table if not exists metrics (
    metric varchar primary key,
    kind varchar not null check (kind in ('accuracy', 'perplexity')),
    preference integer not null,
    reason varchar
);

create table if not exists stages (
    stage varchar primary key,
    position integer not null
);

create table if not exists schema_version (
    version integer not null,
    digest varchar not null
);

insert into benchmarks values ('t', 'acc', 'none', 0.25, null, 'my own');
insert into metrics values ('grade', 'accuracy', 9, 'my own'), ('bits_per_byte', 'perplexity', 5, 'of old');
insert into studies values ('s', 'first', '{}', '0.1', '2026-01-01 12:00:00');
insert into models values ('s', 'LA', 'LA', 4, 100, 10, 1000, '{}'), ('s', 'DR', 'DR', 4, 100, 10, 1000, '{}');
insert into runs values ('la', 's', 'LA', 1, 'complete', 40, 1, 'cpu', 40, null, 'a'),
    ('dr', 's', 'DR', 1, 'complete', 40, 1, 'cpu', 40, null, 'a');
insert into steps values ('la', 1, 10, 5.0, 0.1, 1, 0.1), ('la', 2, 20, 4.0, 0.1, 1, 0.2);
insert into evaluations values ('la', 20, 't', 'acc', 'none', 0.3, 0.01, 2, 0.25, '1'),
    ('la', 40, 't', 'acc', 'none', 0.5, 0.01, 2, 0.25, '1'), ('dr', 10, 't', 'acc', 'none', 0.3, 0.01, 2, 0.25, '1'),
    ('dr', 20, 't', 'acc', 'none', 0.6, 0.01, 2, 0.25, '1');
insert into items values ('la', 40, 't', 'acc', 'none', 't/0', 1), ('la', 40, 't', 'acc', 'none', 't/1', 0);
insert into factor_intervals values ('s', 4, 'DR', 't', 'first', 1, 2, 1, 1000, 0);
insert into schema_version values (1, 'views of version 1');
