-- One row: a factor of a model on a task: by the paper's rule with its bound, or the mean factor with its interval.
-- needs: chosen_metric, data_efficiency, mean_factors_against
create or replace macro compared_factors(study) as table
select
    depth, variant, task,
    'first' as rule,
    factor,
    bound,
    null::double as low,
    null::double as high,
    false as outdated
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
    factors.high,
    factors.outdated
from mean_factors_against('LA') as factors
where factors.study_id = study and factors.variant <> 'LA' and (
    factors.task = 'average' or factors.task in (
        select chosen.task from chosen_metric as chosen where chosen.study_id = study and chosen.kind = 'accuracy'
    )
);

comment on macro table compared_factors is
    'compared_factors(study): the factors of a study by the paper''s rule, and the mean factors with their intervals';
