-- The factors of a study with their intervals, by the paper's rule and on the fitted curves, for comparing two studies.
create or replace macro compared_factors(study) as table
select factors.depth, factors.variant, factors.task, 'first' as rule, factors.factor, factors.bound, intervals.low, intervals.high
from data_efficiency as factors
left join factor_intervals as intervals
    on intervals.study_id = factors.study_id
    and intervals.depth is not distinct from factors.depth
    and intervals.variant = factors.variant
    and intervals.task = factors.task
    and intervals.rule = 'first'
where factors.study_id = study and factors.variant <> 'LA'

union all

select depth, variant, task, 'fitted', factor, bound, low, high
from data_efficiency_fitted
where study_id = study and variant <> 'LA';

comment on macro table compared_factors is 'compared_factors(study): the factors of a study with their intervals, by two rules';
