-- One row: the factor of a model on a task with its interval, by the paper's rule or on the fitted curves.
-- needs: data_efficiency_fitted, table_2
create or replace macro compared_factors(study) as table
select depth, variant, task, 'first' as rule, data_efficiency as factor, bound, low, high
from table_2
where study_id = study and variant <> 'LA' and perplexity is null

union all

select depth, variant, task, 'fitted', factor, bound, low, high
from data_efficiency_fitted
where study_id = study and variant <> 'LA';

comment on macro table compared_factors is
    'compared_factors(study): the factors of a study with their intervals, by two rules';
