-- Filled before any training, with benchmark_levels: what trivial rules score, what an evaluation can show and costs.
create table if not exists benchmark_cards ( -- One row: a benchmark of a study, with what is known before training.
    study_id varchar,
    task varchar, -- name of the benchmark
    floor double, -- score of guessing, or of the best trivial rule if that is higher, 0 to 1; null: unknown
    floor_rule varchar, -- name of the rule with this score
    empty_answer double, -- score of an empty answer to every item; null: the items are choices, or it was not scored
    most_frequent_answer double, -- score of the most frequent right answer, given to every item
    frequent_text varchar, -- the most frequent right answer
    first_choice double, -- score of the first choice of every item; null: the items have no choices
    last_choice double, -- score of the last choice of every item
    longest_choice double, -- score of the longest choice of every item, by characters
    shortest_choice double, -- score of the shortest choice of every item, by characters
    tokens double, -- estimate of the tokens that one evaluation reads and may write, from the bytes of the prompts
    detectable double, -- smallest ratio above 1 that four of five such studies detect, at the demo's noise
    primary key (study_id, task)
);
