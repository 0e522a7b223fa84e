-- One row: a model, a baseline and a metric, with the ratio on the average that leaves out a family of tasks.
create or replace view internal.ratios_without as
select
    study_id, depth, variant, baseline,
    metric,
    substr(task, 17) as left_out,
    ratio,
    low,
    high,
    coalesce(p < 0.05, false) as significant,
    digest
from internal.computed_ratios
where starts_with(task, 'average without ');
