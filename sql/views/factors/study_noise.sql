-- One row: a metric of a task of a study, with the noise of its mean factors on the logarithmic scale.
-- `seed_deviation` is the standard deviation between seeds of one model, `item_error` the standard error that comes from
-- the items, both pooled (root mean square) over depths and variants. What a study of other seeds can tell follows from
-- the two (sql/statistics/resolution.py).
create or replace view study_noise as
select
    study_id, task,
    metric,
    -- The seeds' error of a factor holds the means of two models, each over its own number of seeds.
    sqrt(avg(seed_error ** 2 / (1 / seeds + 1 / baseline_seeds))) as seed_deviation,
    sqrt(avg(coalesce(item_error, 0) ** 2)) as item_error,
    min(least(seeds, baseline_seeds)) as seeds
from computed_factors
where baseline = 'LA' and variant <> 'LA' and seed_error is not null
group by study_id, task, metric
order by study_id, task = 'average', task, metric;

comment on view study_noise is 'What seeds and items change in the mean factors of a study, by task and metric';
