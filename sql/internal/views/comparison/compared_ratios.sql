-- One row: the tokens of a model over those of the baseline, on a task: by the paper's rule, or the ratio with its interval.
-- By the paper's rule the ratio is one over the factor, and a bound turns with it.
create or replace macro internal.compared_ratios(study) as table
select
    depth, variant, baseline, task,
    'first' as rule,
    1 / factor as ratio,
    case bound when 'at most' then 'at least' when 'at least' then 'at most' else bound end as bound,
    null::double as low,
    null::double as high,
    false as outdated
from internal.score_efficiency(null)
where study_id = study and measure = 'accuracy' and variant <> baseline

union all

-- Of held-out documents too, where `compare` finds the same ones; not of other texts. A one-sided bound has one end.
select
    ratios.depth, ratios.variant, ratios.baseline, ratios.task,
    'top ' || ratios.metric,
    coalesce(ratios.ratio, ratios.low, ratios.high),
    case
        when ratios.ratio is not null then null
        when ratios.low is not null then 'at least'
        when ratios.high is not null then 'at most'
    end,
    ratios.low,
    ratios.high,
    ratios.outdated
from token_ratios as ratios
where ratios.study_id = study
    and ratios.task in (
        select task from internal.expected_curves where study_id = study and (measure = 'accuracy' or task = 'validation')
    );
