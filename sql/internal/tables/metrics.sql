-- Declared: the kind of each metric. Users may add rows and change them; opening a file never puts the original rows back.

-- For tasks that are not in `benchmarks`. An unlisted metric is none of these and has no factors: nobody can guess
-- whether more of it is better.
create table if not exists internal.metrics ( -- One row: a metric that is an accuracy, a perplexity or a loss.
    metric varchar primary key,
    kind varchar not null check (kind in ('accuracy', 'perplexity', 'loss')),
    preference integer not null, -- the lowest is taken first
    reason varchar
);

insert into internal.metrics values
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
