-- One row: a metric of a task of a study, with the noise of its mean factors on the logarithmic scale.
-- needs: common_ranges
-- `seed_deviation` is the standard deviation between seeds of one model, `item_error` the standard error that comes from
-- the items, both pooled (root mean square) over depths and variants. What a study of other seeds can tell follows from
-- the two (sql/statistics/resolution.py).
create or replace view study_noise as
select
    intervals.study_id, intervals.task,
    intervals.metric,
    -- The seeds' error of a factor holds the means of two models, each over its own number of seeds. Without their curves
    -- both count as having the smaller number.
    sqrt(avg(
        intervals.seed_error ** 2
        / coalesce(1 / ranges.seeds + 1 / ranges.baseline_seeds, 2 / intervals.seeds)
    )) as seed_deviation,
    sqrt(avg(coalesce(intervals.item_error, 0) ** 2)) as item_error,
    min(intervals.seeds) as seeds
from mean_factor_intervals as intervals
left join common_ranges('LA') as ranges
    on ranges.study_id = intervals.study_id
    and (ranges.depth, ranges.variant, ranges.task, ranges.metric)
        is not distinct from (intervals.depth, intervals.variant, intervals.task, intervals.metric)
where intervals.variant <> 'LA' and intervals.seed_error is not null
group by intervals.study_id, intervals.task, intervals.metric
order by intervals.study_id, intervals.task = 'average', intervals.task, intervals.metric;

comment on view study_noise is 'What seeds and items change in the mean factors of a study, by task and metric';
