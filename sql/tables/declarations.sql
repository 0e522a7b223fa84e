-- Declarations: what the views need to know and results do not say. Users may add rows and change them; opening a file
-- never puts the original rows back.

-- The metric and filter that are the accuracy of a task.
create table if not exists benchmarks (
    task varchar primary key,
    metric varchar not null,
    filter varchar not null default 'none',
    chance double, -- accuracy of guessing, for evaluations without a chance of their own
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
    ('world_choice', 'acc', 'none', 0.25, null, 'the likeliest of four numbers'),
    ('world_relations', 'exact_match', 'strip', 0.1, null, 'as world_short'),
    ('world_swaps', 'exact_match', 'strip', 0.2, null, 'as world_short, of five cups')
on conflict do nothing;

-- The metrics that are an accuracy, a perplexity or a loss, for tasks that are not in `benchmarks`. An unlisted metric
-- is none of these and has no factors: nobody can guess whether more of it is better.
create table if not exists metrics (
    metric varchar primary key,
    kind varchar not null check (kind in ('accuracy', 'perplexity', 'loss')),
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
    ('gold_bits_per_byte', 'loss', 1, 'of the right answer to each item: moves where accuracy is still at chance'),
    ('bits_per_byte', 'loss', 2, 'of whole texts')
on conflict do nothing;

-- The stages of the pipeline in order, for the funnel.
create table if not exists stages (
    stage varchar primary key,
    position integer not null
);

insert into stages values
    ('documents', 1), ('traces', 2), ('clean', 3), ('deduplicate', 4), ('decontaminate', 5), ('tokens', 6)
on conflict do nothing;

comment on table benchmarks is 'Declared: which metric and filter is the accuracy of a task, its chance level, and why';
comment on table metrics is 'Declared: which metrics are accuracies, perplexities and losses, for tasks not in benchmarks';
comment on table stages is 'Declared: the stages of the pipeline in order';
