-- One row: an accuracy or loss curve of a model, with its noise and a digest of the values that the curve is made from.
-- By its digest a row of computed_ratios is known to be of these points. Not hash(), which versions of DuckDB change.
create or replace view internal.measured_curves as
with points as (
    select
        *,
        -- As in mean_curves, here beside each seed's value: the points are looked up once.
        avg(value) over point as mean_value,
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
    max(mean_chance) as chance,
    -- What guessing may reach: chance and two standard errors of the first point. A loss has no chance.
    max(mean_chance) + 2 * coalesce(arg_min(mean_stderr, tokens), 0) as noise_floor,
    case measure when 'loss' then min(mean_value) else max(mean_value) end as best,
    max(tokens) as tokens_trained,
    md5(string_agg(concat_ws(' ', run_id, run_tokens, value), ',' order by run_id, run_tokens)) as digest
from points
group by study_id, depth, variant, task, measure;
