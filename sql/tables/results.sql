-- The rows of a study: data curation, models, training runs, evaluations.
-- Queries of users depend on the names and the order of the columns of `studies` to `expert_usage`.
--
-- There are no foreign keys, because rows come from files that arrive in any order. Columns that are not keys may be
-- null. Times are UTC. Shares (accuracy, chance) are between 0 and 1.

create table if not exists studies ( -- One row: a study.
    study_id varchar primary key, -- name of the study, with a digest of its settings
    name varchar, -- name of the study in its file
    config varchar, -- JSON: the study file that was run, and the versions of the packages
    code_version varchar, -- version of this program
    created_at timestamp, -- time at which the row was first entered, UTC
    baseline varchar -- variant that the others are compared with; null: the first one
);

create table if not exists curation ( -- One row: the documents of a source that a stage kept, or dropped for one reason.
    study_id varchar,
    source varchar, -- name of a data set in the study file
    stage varchar, -- documents, traces, clean, deduplicate, decontaminate or tokens
    reason varchar, -- 'kept' for documents that the next stage reads, or else why they were dropped
    documents bigint check (documents >= 0), -- number of documents
    characters bigint check (characters >= 0), -- number of Unicode characters of questions and responses
    tokens bigint check (tokens >= 0), -- number of tokens of the study's tokenizer; null before the stage tokens
    primary key (study_id, source, stage, reason)
);

create table if not exists models ( -- One row: a model of a study, with its costs.
    study_id varchar,
    model_id varchar, -- name of the model: its variant and depth
    variant varchar, -- name of the variant in the study file, such as 'LA', 'DR' or 'DR+DA'
    depth integer, -- depth at which the study compares models: layers, or iterations of a recurrent model
    parameters bigint, -- number of weights
    flops_per_token double, -- FLOPs of a forward pass (2 per multiply-add), mean over a generated sequence
    memory_bytes bigint, -- memory of the model in bytes, counted as in the paper's Table 1
    config varchar, -- JSON: the sizes of the model
    place integer, -- position of the variant in the study file, from 1; null: last, by name
    primary key (study_id, model_id)
);

-- A run that is part of several studies has one row for each, while its steps and evaluations are stored once.
create table if not exists runs ( -- One row: a training run of a study: a model and a seed.
    run_id varchar, -- name of the run, with a digest of its model, data, recipe and seed
    study_id varchar,
    model_id varchar,
    seed bigint, -- seed of the initial weights and of the order of the documents
    status varchar, -- complete, screened (another seed continued), failed, stopped, waiting, training or evaluating
    tokens bigint check (tokens >= 0), -- training tokens of the run that belong to the study; with branches, the end of the last
    seconds double, -- seconds of training
    device varchar, -- name of the device that trained the run, and of others that continued it
    tokens_per_second double, -- speed of training, all devices together
    mfu double, -- share of the device's peak FLOPs that training used, 0 to 1
    stream_hash varchar, -- hash of all tokens seen; equal for runs that saw the same tokens in the same order
    learning_rate double, -- highest learning rate of the run, from its recipe or from the study's search (tuning)
    primary key (study_id, run_id)
);

-- The trainings of a search have no rows in other tables, because they are measured on other documents and must not
-- count in ratios. If a study searches other settings too, `tuning` has each learning rate at its best other settings.
create table if not exists tuning ( -- One row: a training of a study's search for learning rates.
    study_id varchar,
    depth integer,
    variant varchar,
    learning_rate double, -- highest learning rate of the training
    seed bigint, -- seed of the training, used by the search only
    tokens bigint check (tokens >= 0), -- training tokens
    loss double, -- bits per byte on documents held out for the search; null if the training failed or has not ended
    chosen boolean, -- whether the model's runs have this learning rate: the lowest mean loss over the seeds
    primary key (study_id, depth, variant, learning_rate, seed)
);

create table if not exists tuning_settings ( -- One row: a training of a study's search, with one value of each setting.
    study_id varchar,
    depth integer,
    variant varchar,
    learning_rate double, -- highest learning rate of the training
    weight_decay double, -- decoupled weight decay of the training
    decay double, -- share of the tokens, at the end, in which the learning rate falls; 0: it never falls
    seed bigint, -- seed of the training, used by the search only
    tokens bigint check (tokens >= 0), -- training tokens
    loss double, -- bits per byte on documents held out for the search; null if the training failed or has not ended
    chosen boolean, -- whether the model's runs have these settings: the lowest mean loss over the seeds
    primary key (study_id, depth, variant, learning_rate, weight_decay, decay, seed)
);

create table if not exists steps ( -- One row: an optimiser step of a run.
    run_id varchar,
    step bigint, -- number of the optimiser step, from 1
    tokens bigint check (tokens >= 0), -- training tokens up to and including the step
    loss double, -- loss of the batch, in nats per token
    learning_rate double, -- learning rate of the step
    gradient_norm double, -- norm of the gradient before clipping
    seconds double, -- seconds since the training began
    primary key (run_id, step)
);

create table if not exists evaluations ( -- One row: a metric of a task at a checkpoint of a run.
    run_id varchar,
    tokens bigint check (tokens >= 0), -- training tokens at the checkpoint, or at the end of its branch
    task varchar, -- name of the benchmark; 'average' over benchmarks and 'validation' for held-out documents
    metric varchar, -- lm-eval's name of the metric
    filter varchar default 'none', -- name of the lm-eval filter that extracts the answer
    value double, -- value of the metric; an accuracy is between 0 and 1
    stderr double check (stderr >= 0 or isnan(stderr)), -- standard error over the items
    items bigint check (items >= 0), -- number of items that were asked
    chance double, -- accuracy of guessing, 0 to 1
    task_version varchar, -- version of the task in lm-eval
    primary key (run_id, tokens, task, metric, filter)
);

-- The next four tables hold up to millions of rows and have no primary key: 1.9 million items took 201 MB and 4.1 s
-- with a key, 17 MB and 0.9 s without. Instead, ingest replaces all rows of an evaluation, or of a checkpoint.
create table if not exists items ( -- One row: a metric of one item of a benchmark at a checkpoint of a run.
    run_id varchar not null,
    tokens bigint not null,
    task varchar not null,
    metric varchar not null, -- lm-eval's name of the metric
    filter varchar not null default 'none',
    item_id varchar not null, -- id of the item in its task
    value double -- 1 if the answer is right, 0 if it is wrong; bits per byte for a loss
);

create table if not exists answers ( -- One row: the answer of a run to an item of a benchmark, at its last checkpoint.
    run_id varchar not null,
    tokens bigint not null,
    task varchar not null,
    item_id varchar not null,
    text varchar, -- answer that the run chose or wrote
    question varchar, -- question as it was asked
    gold varchar -- right answer; null if it cannot be written as text
);

create table if not exists depth_attention ( -- One row: how much one depth of a run attends to another, at a checkpoint.
    run_id varchar not null,
    tokens bigint not null,
    query_depth integer not null, -- depth that attends, from 1
    key_depth integer not null, -- depth that is attended to, from 1 to query_depth
    score double -- mean attention weight over tokens, 0 to 1 (the paper's Figure 4)
);

-- An expert that was never selected has a row, too, so the rows are the whole pool.
create table if not exists expert_usage ( -- One row: how often a run selects an expert at a depth, at a checkpoint.
    run_id varchar not null,
    tokens bigint not null,
    depth integer not null, -- depth at which the expert is selected, from 1
    expert integer not null, -- index of the expert in its pool, from 0
    selections bigint check (selections >= 0) -- number of selections
);

-- Where a study evaluates branches, a row is the end of a branch: its run up to the checkpoint, and the branch after it.
create table if not exists checkpoints ( -- One row: a checkpoint that a training run wrote, or the end of a branch from it.
    run_id varchar,
    tokens bigint check (tokens >= 0), -- training tokens up to there, of the run and of its branch
    step bigint check (step >= 0), -- number of the optimiser step, from 1
    epoch double, -- number of passes over the corpus
    loss double, -- mean loss over the last steps, in nats per token
    seconds double, -- seconds of training up to the checkpoint
    stream_hash varchar, -- hash of the tokens up to the checkpoint; runs of one seed must agree (stream_mismatches)
    primary key (run_id, tokens)
);

create table if not exists depth_evaluations ( -- One row: a metric of a task of a trained model at one of several depths.
    run_id varchar,
    tokens bigint check (tokens >= 0),
    depth integer check (depth > 0), -- depth of the model during the evaluation; one row has the depth of training
    task varchar,
    metric varchar, -- lm-eval's name of the metric
    filter varchar default 'none',
    value double, -- value of the metric; an accuracy is between 0 and 1
    stderr double check (stderr >= 0 or isnan(stderr)),
    items bigint check (items >= 0), -- number of items that were asked
    chance double, -- accuracy of guessing, 0 to 1
    primary key (run_id, tokens, depth, task, metric, filter)
);

-- There are rows only if `evaluations` has the averaged weights.
create table if not exists raw_evaluations ( -- One row: a metric of a task of the raw weights of a checkpoint.
    run_id varchar,
    tokens bigint check (tokens >= 0),
    task varchar,
    metric varchar, -- lm-eval's name of the metric
    filter varchar default 'none',
    value double, -- value of the metric; an accuracy is between 0 and 1
    stderr double check (stderr >= 0 or isnan(stderr)),
    items bigint check (items >= 0), -- number of items that were asked
    chance double, -- accuracy of guessing, 0 to 1
    primary key (run_id, tokens, task, metric, filter)
);

create table if not exists sources ( -- One row: a data set of a study (table_4).
    study_id varchar,
    source varchar,
    repository varchar, -- name of the data set's repository on the hub
    revision varchar, -- pinned commit; null: the newest commit was read
    licence varchar, -- licence that the data set's card states
    commit varchar, -- commit whose files were read; null if the download recorded none
    unmarked bigint, -- number of responses kept without marks of a trace, for sources that should have traces
    primary key (study_id, source)
);

-- Entered in the same transaction as the rows. `dreamer run` and `dreamer verify` compare the digests, and enter
-- missing or changed rows again.
create table if not exists ingested ( -- One row: an output of the store whose rows are in this file.
    study_id varchar,
    output varchar, -- evaluations/<key>, runs/<run_id>, or 'study', 'claims', 'tuning', 'computed_ratios'
    rows bigint, -- number of rows
    digest varchar, -- digest of the output in the store and of its rows in this file
    primary key (study_id, output)
);
