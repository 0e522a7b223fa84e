-- One row: a model, a baseline and a metric, with the factor on the average that leaves out a family of tasks.
-- Where the bound says more than the factor, the bound and its interval.
create or replace view internal.factors_without as
select
    study_id, depth, variant, baseline,
    metric,
    substr(task, 17) as left_out,
    case when bounded then bound else factor end as factor,
    case when bounded then bound_low else low end as low,
    case when bounded then bound_high else high end as high,
    coalesce(p < 0.05, false) as decided,
    digest
from internal.computed_factors
where starts_with(task, 'average without ');
