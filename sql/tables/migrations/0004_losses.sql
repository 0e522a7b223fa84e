-- Lets a metric be a loss, and makes bits per byte one unless a user has changed its row. DuckDB cannot change a check.
alter table metrics rename to metrics_before;

create table metrics (
    metric varchar primary key,
    kind varchar not null check (kind in ('accuracy', 'perplexity', 'loss')),
    preference integer not null,
    reason varchar
);

insert into metrics
select
    metric,
    case when unchanged then 'loss' else kind end,
    case when unchanged then 2 else preference end,
    case when unchanged then 'of whole texts' else reason end
from (
    select *, metric = 'bits_per_byte' and kind = 'perplexity' and preference = 5 as unchanged
    from metrics_before
);

drop table metrics_before;
