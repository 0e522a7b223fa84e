-- The tables of a results file. The names and the columns of the first part, and the order of its columns, are what
-- users' queries rely on: change them only with a migration (`migration_<number>.sql`, see results.py).
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
    reason varchar, -- 'kept' for what went on to the next stage, else why it was dropped
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

-- A run may be part of several studies: one row for each, while its steps and evaluations are there once.
create table if not exists runs (
    run_id varchar,
    study_id varchar,
    model_id varchar,
    seed bigint,
    status varchar, -- 'complete'; 'screened' when another seed of the model went on in its place
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

-- The three tables below can hold millions of rows. A primary key made the file 12 times larger and the first ingest
-- 4 times slower (1.9 million items: 201 MB and 4.1 s against 17 MB and 0.9 s), so they have none: ingest replaces all
-- rows of an evaluation, or of a checkpoint, at once.
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

-- Every checkpoint that was written, from its own checkpoint.json.
create table if not exists checkpoints (
    run_id varchar,
    tokens bigint check (tokens >= 0),
    step bigint check (step >= 0),
    epoch double, -- of the corpus, at this checkpoint
    loss double,
    seconds double, -- of training until here
    stream_hash varchar, -- of the tokens until here; runs of one seed must agree (stream_mismatches)
    primary key (run_id, tokens)
);

-- What made an evaluation: beside `evaluations`, whose columns stay as they are.
create table if not exists evaluation_versions (
    run_id varchar,
    tokens bigint check (tokens >= 0),
    task varchar,
    code_version varchar,
    data_version varchar, -- of the benchmark's data
    harness_version varchar,
    packages varchar, -- JSON
    primary key (run_id, tokens, task)
);

-- A trained model evaluated at other depths than its own; its own among them, for comparison (depth_accuracy).
create table if not exists depth_evaluations (
    run_id varchar,
    tokens bigint check (tokens >= 0),
    depth integer check (depth > 0), -- at which it was run
    task varchar,
    metric varchar,
    filter varchar default 'none',
    value double,
    stderr double check (stderr >= 0 or isnan(stderr)),
    items bigint check (items >= 0),
    chance double,
    primary key (run_id, tokens, depth, task, metric, filter)
);

-- Computed by bootstrap.py, which explains them: 95 % intervals of the data-efficiency factors.
create table if not exists factor_intervals (
    study_id varchar not null,
    depth integer,
    variant varchar not null,
    task varchar not null,
    rule varchar not null, -- 'first' as in data_efficiency, 'interpolated' as in data_efficiency_interpolated
    low double, -- 0: nothing limits the factor from below, the variant too often never reached the target
    high double, -- infinity: nothing limits it from above, its first checkpoint too often had the target
    share_reached double, -- of the replicates, the share in which the variant reached the target
    replicates bigint,
    seed bigint,
    goal_first bigint, -- LA's best may be at any checkpoint from this one
    goal_last bigint -- to this one: far apart on a plateau, where the factor is hardly defined
);

-- Computed by curves.py, which explains them: a smooth curve through the checkpoints of every model and task,
--     accuracy(tokens) = ceiling - (ceiling - floor) / (1 + (tokens / scale) ^ exponent)        (macro curve_value)
create table if not exists fitted_curves (
    study_id varchar not null,
    depth integer,
    variant varchar not null,
    task varchar not null,
    status varchar not null, -- 'fitted'; else why there are no parameters: 'too few points', 'near chance', 'flat'
    floor double, -- accuracy before training: between 0 and chance
    ceiling double, -- accuracy after endless training: an extrapolation unless the curve bends
    scale double, -- tokens at half the rise
    exponent double,
    residual double, -- root mean square of the checkpoints' distances from the curve
    misfit double, -- the same squared, over what the items' noise explains: 1 is none but that, more is noise of training
    points bigint, -- checkpoints
    first_tokens bigint,
    last_tokens bigint,
    replicates bigint, -- rows in fitted_replicates
    seed bigint
);

-- The same curves fitted to draws of the items, one row for each draw: the spread of any number read off a curve is the
-- spread of that number over these. The draws of one number are the same for all models of a task.
create table if not exists fitted_replicates (
    study_id varchar not null,
    depth integer,
    variant varchar not null,
    task varchar not null,
    replicate integer not null,
    floor double,
    ceiling double,
    scale double,
    exponent double
);

-- Declarations -------------------------------------------------------------------------------------------------------
-- What the views need to know and the results do not say. Users may add rows and change them; they are never put back.

-- Which of the metrics and filters of a task is its accuracy.
create table if not exists benchmarks (
    task varchar primary key,
    metric varchar not null,
    filter varchar not null default 'none',
    chance double, -- of guessing; used where an evaluation does not bring its own
    same_items_as varchar, -- another task with the same items: only one of the two is part of the average
    reason varchar
);

insert into benchmarks values
    ('gsm8k', 'exact_match', 'flexible-extract', 0, null,
     'the last number of the response: 0-shot models are not told the form "#### 42" that strict-match asks for'),
    ('math', 'exact_match', 'none', 0, null,
     'hendrycks_math: the last \boxed{} compared as a normalised string, the benchmark''s own rule'),
    ('math_verify', 'math_verify', 'none', 0, 'math',
     'the problems of math with answers compared symbolically: forgives notation, so it is higher than math'),
    ('mmlu_math', 'acc', 'none', 0.25, null, 'four choices, the likeliest letter; mean over the items of all subjects'),
    ('mathqa', 'acc', 'none', 0.2, null,
     'five choices; acc, not acc_norm: the choices are short numbers, their length says nothing'),
    ('world_short', 'exact_match', 'strip', 0.1, null, 'there is one right way to write a number, and ten numbers'),
    ('world_long', 'exact_match', 'strip', 0.1, null, 'as world_short'),
    ('world_choice', 'acc', 'none', 0.25, null, 'the likeliest of four numbers')
on conflict do nothing;

-- For tasks that are not declared above: which metrics are an accuracy, and which is taken first. A metric that is not
-- listed is never taken for one: whether more of it is better cannot be guessed. The same for perplexities.
create table if not exists metrics (
    metric varchar primary key,
    kind varchar not null check (kind in ('accuracy', 'perplexity')),
    preference integer not null, -- the lowest is taken first
    reason varchar
);

insert into metrics values
    ('acc', 'accuracy', 1, 'the plain share of right choices'),
    ('accuracy', 'accuracy', 2, 'the same under another name'),
    ('math_verify', 'accuracy', 3, 'before exact_match: misses fewer right answers where a task has both'),
    ('exact_match', 'accuracy', 4, 'the share of right generated answers'),
    ('em', 'accuracy', 5, 'the same under another name'),
    ('pass@1', 'accuracy', 6, 'the same for programs'),
    ('acc_norm', 'accuracy', 7, 'choices by likelihood per byte: only where there is no plain acc'),
    ('f1', 'accuracy', 8, 'partial credit: only where nothing else is there'),
    ('perplexity', 'perplexity', 1, 'per token, as papers print it; compares models of one tokenizer'),
    ('token_perplexity', 'perplexity', 2, 'the same under another name'),
    ('word_perplexity', 'perplexity', 3, 'lm-eval''s usual one'),
    ('byte_perplexity', 'perplexity', 4, 'compares models of different tokenizers'),
    ('bits_per_byte', 'perplexity', 5, 'its logarithm: only where no perplexity is there')
on conflict do nothing;

-- The stages of the pipeline in order, for the funnel.
create table if not exists stages (
    stage varchar primary key,
    position integer not null
);

insert into stages values
    ('documents', 1), ('traces', 2), ('clean', 3), ('deduplicate', 4), ('decontaminate', 5), ('tokens', 6)
on conflict do nothing;

-- What results.py compares when it opens a file: one row.
create table if not exists schema_version (
    version integer not null, -- of the tables: the number of the last migration
    digest varchar not null -- of the files in this folder that the views were made from
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
comment on table factor_intervals is '95 % intervals of the data-efficiency factors, by paired bootstrap';
comment on table checkpoints is 'Every checkpoint of every run: step, epoch, loss, hash of the data seen';
comment on table evaluation_versions is 'The code, data and packages that made each evaluation';
comment on table depth_evaluations is 'A task''s metric of a trained model run at another depth';
comment on table fitted_curves is 'Smooth curve through the checkpoints of every model and task';
comment on table fitted_replicates is 'The same curve for each draw of the items';
comment on table benchmarks is 'Declared: which metric and filter is the accuracy of a task, its chance level, and why';
comment on table metrics is 'Declared: which metrics are accuracies and perplexities, for tasks not in benchmarks';
comment on table stages is 'Declared: the stages of the pipeline in order';
comment on table schema_version is 'Which version of the program made the tables and views';
