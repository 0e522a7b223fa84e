-- One row: a model some of whose curves end early, as a run has fewer checkpoints than the others, with where they end.
create or replace view internal.cut_curves as
with ends as (
    select
        scores.study_id, scores.depth, scores.variant,
        max(scores.tokens) as last_tokens,
        max(points.tokens) as ends
    from internal.counted_scores as scores
    left join internal.curve_points as points
        on (points.study_id, points.run_id, points.measure, points.task, points.run_tokens)
            = (scores.study_id, scores.run_id, scores.measure, scores.task, scores.tokens)
    where scores.measure in ('accuracy', 'loss')
    group by scores.study_id, scores.depth, scores.variant, scores.measure, scores.task
)

select study_id, depth, variant, min(ends) as ends
from ends
where ends < 0.95 * last_tokens
group by study_id, depth, variant;
