-- One row: the factor of a model on a task with its interval, by the paper's rule or on the fitted curves.
-- needs: data_efficiency, data_efficiency_fitted
create or replace macro compared_factors(study) as table
select
    factors.depth, factors.variant, factors.task, 'first' as rule, factors.factor, factors.bound, intervals.low,
    intervals.high
from data_efficiency as factors
left join factor_intervals as intervals
    on intervals.study_id = factors.study_id
    and (intervals.depth, intervals.variant, intervals.task)
        is not distinct from (factors.depth, factors.variant, factors.task)
    and intervals.rule = 'first'
where factors.study_id = study and factors.variant <> 'LA'

union all

select depth, variant, task, 'fitted', factor, bound, low, high
from data_efficiency_fitted
where study_id = study and variant <> 'LA';

comment on macro table compared_factors is 'compared_factors(study): the factors of a study with their intervals, by two rules';
