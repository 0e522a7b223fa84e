-- Entered with the study, before any training. docs/decontamination.md defines what counts as a copy.
create table if not exists internal.found_items ( -- One row: a benchmark item of which a study's documents hold a copy.
    study_id varchar,
    task varchar, -- name of the benchmark
    item_id varchar, -- id of the item in its task
    trained boolean, -- whether documents with the item were kept for training
    primary key (study_id, task, item_id)
);
