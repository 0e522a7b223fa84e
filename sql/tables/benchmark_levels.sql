-- Known before anything is trained: between which scores a model can lie.
create table if not exists benchmark_levels ( -- One row: a benchmark of a study, with what can be scored on it.
    study_id varchar,
    task varchar, -- name of the benchmark
    metric varchar, -- whose value is the score
    filter varchar, -- that the scorer takes the answer by
    items bigint check (items >= 0), -- number of gold answers that were scored; null where they were not
    failed bigint check (failed >= 0), -- of those, number that the scorer calls wrong
    ceiling double, -- share of the gold answers that the scorer calls right, 0 to 1
    chance double, -- score of guessing, 0 to 1
    trivial double, -- score of the best trivial rule, 0 to 1; null where unknown
    first_failed varchar, -- ids of the first items whose gold answer is called wrong
    primary key (study_id, task)
);
