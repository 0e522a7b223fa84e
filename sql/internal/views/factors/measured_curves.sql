-- One row: an accuracy or loss curve of a model, with its noise and a digest of the values that the curve is made from.
-- By its digest a row of computed_factors is known to be of these points. Not hash(), which versions of DuckDB change.
create or replace view internal.measured_curves as
with points as (
    select
        *,
        -- As in mean_curves, here beside each seed's value: the points are looked up once.
        case when count(stderr) over point = seeds then avg(stderr) over point end as mean_stderr,
        avg(chance) over point as mean_chance
    from internal.curve_points
    where measure in ('accuracy', 'loss')
    window point as (partition by study_id, depth, variant, measure, task, tokens)
)

select
    study_id, depth, variant, task,
    measure as metric,
    max(seeds) as seeds,
    max(mean_stderr) as stderr,
    max(mean_chance) as chance,
    md5(string_agg(concat_ws(' ', run_id, run_tokens, value), ',' order by run_id, run_tokens)) as digest
from points
group by study_id, depth, variant, task, measure;
