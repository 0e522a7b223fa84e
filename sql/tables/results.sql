-- The rows of a study: data curation, models, training runs, evaluations.
-- Users' queries rely on the names, columns and order of columns of `studies` to `expert_usage`.
--
-- No table refers to another by a foreign key: rows come from files that arrive in any order, also from elsewhere.
-- Columns that are not keys may be null. Times are UTC. Shares (accuracy, chance) are between 0 and 1.

create table if not exists studies ( -- One row: a study.
    study_id varchar primary key, -- name of the study, with a digest of its file
    name varchar, -- as in the study file
    config varchar, -- JSON: the study file as it was run, and the versions of the packages
    code_version varchar, -- of this program
    created_at timestamp, -- UTC
    baseline varchar -- the variant that the others are compared with; null: the first one
);

create table if not exists curation ( -- One row: the documents of a source that a stage kept, or dropped for one reason.
    study_id varchar,
    source varchar, -- name of a data set in the study file
    stage varchar, -- documents, traces, clean, deduplicate, decontaminate or tokens
    reason varchar, -- 'kept' for documents that went on to the next stage, else why they were dropped
    documents bigint check (documents >= 0), -- number
    characters bigint check (characters >= 0), -- Unicode characters of questions and responses
    tokens bigint check (tokens >= 0), -- of the study's tokenizer; null before the stage tokens
    primary key (study_id, source, stage, reason)
);

create table if not exists models ( -- One row: a model of a study, and what the model costs.
    study_id varchar,
    model_id varchar, -- name: variant and depth
    variant varchar, -- name in the study file: 'LA', 'DR', 'DR+DA' or the user's own
    depth integer, -- of the study's group of models: layers, or steps of a recurrent model
    parameters bigint, -- number
    flops_per_token double, -- FLOPs (2 a multiply-add): forward, mean over a generated sequence
    memory_bytes bigint, -- bytes, as in the paper's Table 1
    config varchar, -- JSON: sizes of the model
    place integer, -- of the variant in the order of the study file, from 1; null: after those with a place, by name
    primary key (study_id, model_id)
);

-- A run that is part of several studies has one row for each, while its steps and evaluations are stored once.
create table if not exists runs ( -- One row: a training run of a study: a model and a seed.
    run_id varchar, -- name and digest of model, data, recipe and seed
    study_id varchar,
    model_id varchar,
    seed bigint, -- of the initialisation and of the order of the documents
    status varchar, -- complete, screened (another seed went on), failed, stopped, waiting, training or evaluating
    tokens bigint check (tokens >= 0), -- training tokens that the study claims of the run
    seconds double, -- of training
    device varchar, -- that trained the run
    tokens_per_second double, -- of training, all devices together
    mfu double, -- share of the device's peak FLOPs that training used, 0 to 1
    stream_hash varchar, -- of all tokens seen: equal for runs that saw the same tokens in the same order
    learning_rate double, -- the highest of the run: of its recipe, or chosen by the study (tuning)
    primary key (study_id, run_id)
);

-- The trainings of a search have no rows in other tables: they are measured on other documents, and no factor may count
-- them. Where more than learning rates was searched, `tuning` has those of each rate at its best other settings.
create table if not exists tuning ( -- One row: a training of a study's search for learning rates, the same for each model.
    study_id varchar,
    depth integer,
    variant varchar,
    learning_rate double, -- the highest of the training
    seed bigint, -- of the search alone
    tokens bigint check (tokens >= 0), -- training tokens
    loss double, -- bits per byte of documents held out for the search; null where the training failed or has not ended
    chosen boolean, -- whether the model's runs have this learning rate: the lowest mean loss over the seeds
    primary key (study_id, depth, variant, learning_rate, seed)
);

create table if not exists tuning_settings ( -- One row: a training of a study's search, at one value of each setting.
    study_id varchar,
    depth integer,
    variant varchar,
    learning_rate double, -- the highest of the training
    weight_decay double, -- decoupled, of the training
    decay double, -- share of the tokens, at their end, in which the rate falls; 0: it stays
    seed bigint, -- of the search alone
    tokens bigint check (tokens >= 0), -- training tokens
    loss double, -- bits per byte of documents held out for the search; null where the training failed or has not ended
    chosen boolean, -- whether the model's runs have these settings: the lowest mean loss over the seeds
    primary key (study_id, depth, variant, learning_rate, weight_decay, decay, seed)
);

create table if not exists steps ( -- One row: an optimiser step of a run.
    run_id varchar,
    step bigint, -- from 1
    tokens bigint check (tokens >= 0), -- training tokens, up to and including the step
    loss double, -- nats per token, of the batch
    learning_rate double, -- of the step
    gradient_norm double, -- before clipping
    seconds double, -- since training began
    primary key (run_id, step)
);

create table if not exists evaluations ( -- One row: a metric of a task at a checkpoint of a run.
    run_id varchar,
    tokens bigint check (tokens >= 0), -- training tokens at the checkpoint
    task varchar, -- name of the benchmark; 'average' over benchmarks and 'validation' for held-out documents
    metric varchar, -- as lm-eval names the metric
    filter varchar default 'none', -- that lm-eval takes the answer by
    value double, -- of the metric; accuracies between 0 and 1
    stderr double check (stderr >= 0 or isnan(stderr)), -- standard error over the items
    items bigint check (items >= 0), -- number of items asked
    chance double, -- accuracy of guessing, 0 to 1
    task_version varchar, -- of the task in lm-eval
    primary key (run_id, tokens, task, metric, filter)
);

-- The next four tables hold up to millions of rows and have no primary key: 1.9 million items took 201 MB and 4.1 s
-- with one, 17 MB and 0.9 s without. Instead ingest replaces all rows of an evaluation, or of a checkpoint.
create table if not exists items ( -- One row: a metric of one item of a benchmark at a checkpoint of a run.
    run_id varchar not null,
    tokens bigint not null,
    task varchar not null,
    metric varchar not null, -- as lm-eval names the metric
    filter varchar not null default 'none',
    item_id varchar not null, -- of the item in its task
    value double -- 1 right, 0 wrong; bits per byte for a loss
);

create table if not exists answers ( -- One row: what a run answered to an item of a benchmark, at its last checkpoint.
    run_id varchar not null,
    tokens bigint not null,
    task varchar not null,
    item_id varchar not null,
    text varchar, -- chosen, or written by the run
    question varchar, -- as asked
    gold varchar -- the right answer; null where there is none in words
);

create table if not exists depth_attention ( -- One row: how much one depth of a run attends to another, at a checkpoint.
    run_id varchar not null,
    tokens bigint not null,
    query_depth integer not null, -- that attends, from 1
    key_depth integer not null, -- attended to, from 1 to query_depth
    score double -- mean attention weight over tokens, 0 to 1 (the paper's Figure 4)
);

-- An expert that was never selected has a row too: the rows are the pool.
create table if not exists expert_usage ( -- One row: how often a run selects an expert at a depth, at a checkpoint.
    run_id varchar not null,
    tokens bigint not null,
    depth integer not null, -- at which the expert is selected, from 1
    expert integer not null, -- number of the expert in its pool, from 0
    selections bigint check (selections >= 0) -- number
);

create table if not exists checkpoints ( -- One row: a checkpoint that a training run wrote.
    run_id varchar,
    tokens bigint check (tokens >= 0),
    step bigint check (step >= 0), -- optimiser step, from 1
    epoch double, -- passes over the corpus
    loss double, -- nats per token, mean over the last steps
    seconds double, -- of training up to the checkpoint
    stream_hash varchar, -- of the tokens up to the checkpoint; runs of one seed must agree (stream_mismatches)
    primary key (run_id, tokens)
);

create table if not exists depth_evaluations ( -- One row: a metric of a task of a trained model run at one of several depths.
    run_id varchar,
    tokens bigint check (tokens >= 0),
    depth integer check (depth > 0), -- of the model when evaluated; the depth of training is among them
    task varchar,
    metric varchar, -- as lm-eval names the metric
    filter varchar default 'none',
    value double,
    stderr double check (stderr >= 0 or isnan(stderr)),
    items bigint check (items >= 0),
    chance double, -- accuracy of guessing, 0 to 1
    primary key (run_id, tokens, depth, task, metric, filter)
);

-- Rows are there where `evaluations` has the averaged weights.
create table if not exists raw_evaluations ( -- One row: a metric of a task of the raw weights of a checkpoint.
    run_id varchar,
    tokens bigint check (tokens >= 0),
    task varchar,
    metric varchar, -- as lm-eval names the metric
    filter varchar default 'none',
    value double,
    stderr double check (stderr >= 0 or isnan(stderr)),
    items bigint check (items >= 0),
    chance double, -- accuracy of guessing, 0 to 1
    primary key (run_id, tokens, task, metric, filter)
);

create table if not exists sources ( -- One row: a data set of a study (table_4).
    study_id varchar,
    source varchar,
    repository varchar, -- on the hub
    revision varchar, -- the pinned commit; null where the newest one was read
    licence varchar, -- as the data set's card says
    commit varchar, -- whose files were read, by the record of the download; null where nothing records a commit
    unmarked bigint, -- responses kept without marks of a trace, of a source declared to have traces, with or without marks
    primary key (study_id, source)
);

-- Entered in the transaction of the rows: `dreamer run` and `dreamer verify` compare, so that rows which are missing or
-- were changed are entered again.
create table if not exists ingested ( -- One row: what of the store has its rows in this file.
    study_id varchar,
    output varchar, -- evaluations/<key>, runs/<run_id>; and of the study 'study', 'claims', 'tuning', 'computed_ratios'
    rows bigint, -- number
    digest varchar, -- of the output in the store and of its rows here
    primary key (study_id, output)
);
