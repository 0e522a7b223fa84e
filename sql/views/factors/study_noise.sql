-- One row: a metric of a task of a study, with the noise of its token ratios on the logarithmic scale.
-- Both errors are pooled (root mean square) over depths and variants. From them, sql/statistics/resolution.py computes
-- which ratios a study with other numbers of seeds can detect.
create or replace view study_noise as
select
    study_id, task,
    metric, -- 'accuracy', or 'loss' in bits per byte
    -- The seed error of a ratio comes from the means of two models, each over its own number of seeds.
    sqrt(avg(seed_error ** 2 / (1 / seeds + 1 / baseline_seeds)))
    as seed_deviation, -- standard deviation between seeds of one model
    sqrt(avg(coalesce(item_error, 0) ** 2)) as item_error, -- standard error from the choice of the items
    max(least(seeds, baseline_seeds)) as seeds -- most seeds of a pair of models; a model with fewer is a control
from internal.computed_ratios
join internal.variants using (study_id, variant, baseline)
where baseline <> variant and seed_error is not null and not starts_with(task, 'average without ')
group by study_id, task, metric
order by study_id, task = 'average', task, metric;
