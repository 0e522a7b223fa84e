-- One row: a factor of a model on a task: by the paper's rule with its bound, or the mean factor with its interval.
-- Where a variant never reached much of the baseline's range, the mean over the whole range stands here, an upper bound.
create or replace macro internal.compared_factors(study) as table
select
    depth, variant, baseline, task,
    'first' as rule,
    factor,
    bound,
    null::double as low,
    null::double as high,
    false as outdated
from internal.score_efficiency(null)
where study_id = study and measure = 'accuracy' and variant <> baseline

union all

-- Of held-out documents too, where `compare` finds the same ones; not of other texts.
select
    factors.depth, factors.variant, factors.baseline, factors.task,
    'mean ' || factors.metric,
    case when factors.bounded then factors.bound else factors.factor end,
    case when factors.bounded then 'at most' end,
    case when factors.bounded then factors.bound_low else factors.low end,
    case when factors.bounded then factors.bound_high else factors.high end,
    factors.outdated
from mean_factors_against(null) as factors
where factors.study_id = study and factors.variant <> factors.baseline
    and factors.task in (
        select task from internal.expected_curves where study_id = study and (measure = 'accuracy' or task = 'validation')
    );
