-- One row: a factor of a model on a task: by the paper's rule with its bound, or the mean factor with its interval.
create or replace macro internal.compared_factors(study) as table
select
    depth, variant, task,
    'first' as rule,
    factor,
    bound,
    null::double as low,
    null::double as high,
    false as outdated
from internal.score_efficiency(null)
where study_id = study and measure = 'accuracy' and variant <> baseline

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
from mean_factors_against(null) as factors
where factors.study_id = study and factors.variant <> factors.baseline and (
    factors.task = 'average' or factors.task in (
        select chosen.task
        from internal.chosen_metric as chosen
        where chosen.study_id = study and chosen.kind = 'accuracy'
    )
);
