-- One row: a factor of a model on a task with its interval: by the paper's rule, or the mean factor in accuracy or loss.
-- needs: chosen_metric, data_efficiency, mean_factors
create or replace macro compared_factors(study) as table
-- The paper's rule has a bound and no interval.
select depth, variant, task, 'first' as rule, factor, bound, null::double as low, null::double as high
from data_efficiency
where study_id = study and variant <> 'LA'

union all

-- Not of held-out documents and other texts: two studies need not have the same ones.
select
    factors.depth, factors.variant, factors.task,
    'mean ' || factors.metric,
    factors.factor,
    null,
    factors.low,
    factors.high
from mean_factors as factors
where factors.study_id = study and factors.variant <> 'LA' and (
    factors.task = 'average' or factors.task in (
        select chosen.task from chosen_metric as chosen where chosen.study_id = study and chosen.kind = 'accuracy'
    )
);

comment on macro table compared_factors is
    'compared_factors(study): the factors of a study with their intervals, the paper''s and the mean factors';
