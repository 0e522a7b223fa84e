-- One row: a model and metric of a task, with the scores that its curve and the curve of a baseline both cover.
-- needs: reaches, score_curves
--     from common_ranges('LA')
-- The range goes from the higher of the two first scores to the lower of the two best ones; `low` and `high` are
-- null where that is no range, rounding aside. For a loss the score is minus the loss. The baseline has the model's depth.
create or replace macro common_ranges(baseline_variant) as table
with spans as (
    select
        study_id, depth, variant, task,
        measure as metric,
        arg_min(score, tokens) as first,
        max(score) as best,
        max(stderr) as stderr,
        max(chance) as chance,
        max(seeds) as seeds
    from score_curves(null)
    where measure in ('accuracy', 'loss')
    group by study_id, depth, variant, task, measure
),

pairs as (
    select
        own.study_id, own.depth, own.variant, own.task,
        own.metric,
        greatest(own.first, baseline.first) as higher_first,
        least(own.best, baseline.best) as lower_best,
        own.best - own.first as own_rise,
        baseline.best - baseline.first as baseline_rise,
        greatest(own.stderr, baseline.stderr) as stderr, -- the largest of both curves
        greatest(own.chance, baseline.chance) as chance,
        own.seeds,
        baseline.seeds as baseline_seeds
    from spans as own
    join spans as baseline
        on baseline.study_id = own.study_id
        and (baseline.depth, baseline.task, baseline.metric) is not distinct from (own.depth, own.task, own.metric)
    where baseline.variant = baseline_variant
)

select
    * exclude (higher_first, lower_best),
    case when not reaches(higher_first, lower_best) then higher_first end as low,
    case when not reaches(higher_first, lower_best) then lower_best end as high
from pairs;

comment on macro table common_ranges is
    'common_ranges(variant): the scores that the curves of a model and of that variant both cover';
