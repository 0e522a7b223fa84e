-- The built-in world fills in the steps of its problems. Users may add facts about items of their own benchmarks.
create table if not exists item_facts ( -- One row: a fact about an item of a benchmark of a study, as a number.
    study_id varchar,
    task varchar, -- name of the benchmark
    item_id varchar, -- id of the item in its task
    fact varchar, -- name of the fact; 'steps': how many steps lead to the answer
    value double, -- value of the fact
    primary key (study_id, task, item_id, fact)
);
