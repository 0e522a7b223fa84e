-- Filled before any training: the lowest and the highest score that a model can have on a benchmark.
create table if not exists benchmark_levels ( -- One row: a benchmark of a study, with its ceiling and its chance.
    study_id varchar,
    task varchar, -- name of the benchmark
    metric varchar, -- name of the metric whose value is the score
    filter varchar, -- name of the lm-eval filter that extracts the answer
    items bigint check (items >= 0), -- number of gold answers that were scored; null: none were
    failed bigint check (failed >= 0), -- number of these gold answers that the scorer calls wrong
    ceiling double, -- share of the gold answers that the scorer calls right, 0 to 1
    chance double, -- score of guessing, 0 to 1
    trivial double, -- score of the best trivial rule, 0 to 1; null: unknown
    first_failed varchar, -- ids of the first items whose gold answer is called wrong
    primary key (study_id, task)
);
