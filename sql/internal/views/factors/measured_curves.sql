-- One row: an accuracy or loss curve of a model, with its noise and a digest of the values that the curve is made from.
-- By its digest a row of computed_factors is known to be of these points. Not hash(), which versions of DuckDB change.
create or replace view internal.measured_curves as
with digests as (
    select
        study_id, depth, variant, task,
        measure,
        md5(string_agg(concat_ws(' ', run_id, run_tokens, value), ',' order by run_id, run_tokens)) as digest
    from internal.curve_points
    group by study_id, depth, variant, task, measure
)

select
    study_id, curves.depth, curves.variant, curves.task,
    curves.measure as metric,
    max(curves.seeds) as seeds,
    max(curves.stderr) as stderr,
    max(curves.chance) as chance,
    any_value(digests.digest) as digest
from internal.mean_curves as curves
join digests using (study_id, variant, task, measure)
where curves.measure in ('accuracy', 'loss') and curves.depth is not distinct from digests.depth
group by study_id, curves.depth, curves.variant, curves.task, curves.measure;
