-- Made by sql/statistics/difficulty.py when `dreamer items` asks for them. The views learning_times and
-- ratios_by_difficulty compare the digests with those of the curves.
create table if not exists internal.computed_times ( -- One row: when a model learns an item of a benchmark.
    study_id varchar not null,
    depth integer,
    variant varchar not null,
    task varchar not null,
    item_id varchar not null,
    state varchar not null, -- learned, 'at first' (before the first checkpoint) or never (not at the last one)
    tokens double, -- at which the item is learned, half way from guessing to knowing; null unless the state is learned
    low double, -- lower end of the 90 % interval; null: before the first checkpoint
    high double, -- upper end of the 90 % interval; null: behind the last checkpoint
    difficulty varchar not null, -- easy, middle or hard: a third of the task's items each
    share_right double, -- of the seeds' answers at the last checkpoint
    seeds bigint,
    digest varchar not null -- of the points of the curve (measured_curves)
);

create table if not exists internal.computed_difficulties ( -- One row: a token ratio over a third of a task's items.
    study_id varchar not null,
    depth integer,
    variant varchar not null,
    baseline varchar not null,
    task varchar not null,
    difficulty varchar not null, -- easy, middle or hard
    items bigint, -- number of items
    ratio double, -- over the upper fifth of the common range, as in computed_ratios
    low double, -- null with one seed; else a one-sided bound where the ratio is null
    high double,
    score_low double, -- the accuracies that the ratio is over
    score_high double,
    at_least double, -- lower bound on the ratio at the baseline's best
    reached boolean, -- whether the variant's best is not below the baseline's by more than two standard errors
    seeds bigint, -- of `variant`
    baseline_seeds bigint,
    digest varchar not null -- of the points of both curves (measured_curves)
);
