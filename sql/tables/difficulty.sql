-- Made by `dreamer items`, which computes all rows of a study again. docs/statistics.md defines both. Once results have
-- changed, digests differ from those of internal.measured_curves.
create table if not exists learning_times ( -- One row: an item and a model, with when the model learns the item.
    study_id varchar not null,
    depth integer,
    variant varchar not null,
    task varchar not null, -- name of the benchmark
    item_id varchar not null,
    state varchar not null, -- learned, 'at first' (before the first checkpoint) or never (not at the last checkpoint)
    tokens double, -- training tokens at which the item is learned, half way from guessing to knowing; null: see state
    low double, -- lower end of the 90 % interval; null: before the first checkpoint
    high double, -- upper end of the 90 % interval; null: after the last checkpoint
    difficulty varchar not null, -- easy, middle or hard: thirds of the items by the learning time of all runs together
    share_right double, -- share of the seeds' answers at the last checkpoint that are right, 0 to 1
    seeds bigint, -- number of seeds of the model
    digest varchar not null -- digest of the points of the model's curve
);

create table if not exists ratios_by_difficulty ( -- One row: a model and a third of the items, with its ratio.
    study_id varchar not null,
    depth integer,
    variant varchar not null,
    baseline varchar not null, -- variant whose tokens the ratio divides by
    task varchar not null, -- name of the benchmark; 'average' over benchmarks
    difficulty varchar not null, -- easy, middle or hard: thirds of the items by the learning time of all runs together
    items bigint, -- number of items
    ratio double, -- tokens of the variant / tokens of the baseline, at equal accuracy; null: no accuracy in common
    low double, -- lower end of the 95 % interval over seeds and items; without a ratio, a bound; null with one seed
    high double, -- upper end of the 95 % interval; without a ratio, an upper bound; null with one seed
    score_low double, -- lower end of the compared accuracies
    score_high double, -- upper end of the compared accuracies
    at_least double, -- lower bound on the ratio at the baseline's best on these items
    reached boolean, -- false if the variant's best is below the baseline's by more than two standard errors
    seeds bigint, -- number of seeds of the variant
    baseline_seeds bigint, -- number of seeds of the baseline
    digest varchar not null -- digest of the points of both curves
);
