-- Declared: facts about benchmarks that the views need and results do not hold. You may add and change rows; opening a
-- file never restores the original rows.
create table if not exists benchmarks ( -- One row: a benchmark, with the metric that is its accuracy.
    task varchar primary key,
    metric varchar not null, -- name of the metric whose value is the accuracy
    filter varchar not null default 'none', -- name of the lm-eval filter that extracts the answer
    chance double, -- accuracy of guessing, 0 to 1, for evaluations that state no chance
    same_items_as varchar, -- another task with the same items; only one of the two is in the average
    reason varchar, -- why this metric and filter were chosen
    family varchar, -- name of a group of benchmarks for one skill; families have equal weight in the average
    trivial double -- accuracy of the best trivial rule, 0 to 1; null: unknown
);

insert into benchmarks by name
from (values
    ('gsm8k', 'exact_match', 'flexible-extract', 0, null, 'gsm8k',
     'the last number of the response: 0-shot models are not told the form "#### 42" that strict-match asks for'),
    ('math', 'exact_match', 'none', 0, null, 'math',
     'hendrycks_math: the last \boxed{} compared as a normalised string, the benchmark''s own rule'),
    ('math_verify', 'math_verify', 'none', 0, 'math', 'math',
     'the problems of math with answers compared symbolically: forgives notation, so it is higher than math'),
    ('mmlu_math', 'acc', 'none', 0.25, null, 'mmlu',
     'four choices, the likeliest letter; mean over the items of all subjects'),
    ('mathqa', 'acc', 'none', 0.2, null, 'mathqa',
     'five choices; acc, not acc_norm: the choices are short numbers, their length says nothing'),
    ('world_short', 'exact_match', 'strip', 0.1, null, 'sums',
     'there is one right way to write a number, and ten numbers'),
    ('world_long', 'exact_match', 'strip', 0.1, null, 'sums', 'as world_short'),
    ('world_choice', 'acc', 'none', 0.25, null, 'sums', 'the likeliest of four numbers')
) as declared(task, metric, filter, chance, same_items_as, family, reason)
on conflict do nothing;
