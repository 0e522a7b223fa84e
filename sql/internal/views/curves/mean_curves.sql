-- One row: a point of a model's curve, a metric of a task against tokens: the mean over its seeds.
-- `measure` is 'accuracy', 'loss', 'perplexity', or null for another metric. The average curve has no metric.
create or replace view internal.mean_curves as
select
    study_id, depth, variant, measure, task,
    tokens,
    avg(value order by run_id) as value,
    stddev_samp(value) / sqrt(count(*)) as seed_error, -- standard error of the mean over the seeds
    -- Seeds answer the same items, so their errors do not average out: the mean error is the cautious choice.
    case when count(stderr) = count(*) then avg(stderr) end as stderr,
    avg(chance) as chance,
    max(items) as items,
    any_value(seeds) as seeds,
    metric,
    filter
from internal.curve_points
group by study_id, depth, variant, measure, task, tokens, metric, filter;
