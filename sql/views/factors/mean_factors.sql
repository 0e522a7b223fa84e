-- One row: a model and metric (accuracy, loss) of a task, with its mean factor against LA and its 95 % interval.
-- needs: mean_factors_against, variant_order
-- How many times fewer tokens than LA to the same accuracy or loss, on the geometric mean over all that both curves
-- cover. `seeds` is the smaller number of seeds of the two models; with one seed there is no interval.
create or replace view mean_factors as
select
    factors.study_id, factors.depth, factors.variant, factors.task,
    factors.metric,
    factors.factor,
    intervals.low,
    intervals.high,
    factors.seeds
from mean_factors_against('LA') as factors
left join mean_factor_intervals as intervals
    on intervals.study_id = factors.study_id
    and (intervals.depth, intervals.variant, intervals.task, intervals.metric)
        is not distinct from (factors.depth, factors.variant, factors.task, factors.metric)
order by
    factors.study_id, factors.depth, variant_order(factors.variant), factors.variant, factors.task = 'average',
    factors.task, factors.metric;

comment on view mean_factors is 'How many times fewer tokens than LA to the same accuracy or loss, on average over the curves';
