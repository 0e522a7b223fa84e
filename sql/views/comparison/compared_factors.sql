-- One row: a factor of a model on a task with its interval: by the paper's rule, or the mean factor in accuracy or loss.
-- needs: mean_factors, table_2
create or replace macro compared_factors(study) as table
select depth, variant, task, 'first' as rule, data_efficiency as factor, bound, low, high
from table_2
where study_id = study and variant <> 'LA' and perplexity is null

union all

select depth, variant, task, 'mean ' || metric, factor, null, low, high
from mean_factors
where study_id = study and variant <> 'LA';

comment on macro table compared_factors is
    'compared_factors(study): the factors of a study with their intervals, the paper''s and the mean factors';
