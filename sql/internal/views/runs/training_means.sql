-- One row: a stretch of the training of a model, with the mean of its seeds' losses.
-- The runs are those that count in curves: no screened and failed ones, and of runs under way only where none has ended.
-- A stretch has a mean where all of these runs have a loss.
create or replace view internal.training_means as
with ending as (
    select *, coalesce(status in ('waiting', 'training', 'evaluating'), false) as under_way
    from internal.training_curves
    where status is null or status not in ('screened', 'failed')
),

counted as (
    select *
    from ending
    qualify not under_way or bool_and(under_way) over (partition by study_id, depth, variant)
),

means as (
    select
        counted.* exclude (run_id, seed, status, under_way, losses_not_finite),
        run_id,
        count(distinct run_id) over (partition by study_id, depth, variant) as seeds
    from counted
)

select
    study_id, depth, variant,
    stretch,
    avg(tokens) as tokens,
    avg(loss order by run_id) as loss,
    stddev_samp(loss) / sqrt(count(*)) as seed_error, -- standard error of the mean over the seeds
    any_value(seeds) as seeds
from means
where loss is not null
group by study_id, depth, variant, stretch
having count(*) = any_value(seeds)
order by study_id, depth, variant, avg(tokens);
