-- One row: a point of a model's curve (a metric of a task against tokens) and a run with its checkpoint there.
-- `measure` is 'accuracy', 'loss', 'perplexity', or null for another metric. A model is a depth and variant of a study,
-- its runs are its seeds. The curve has a point where all of them have a checkpoint; a run without evaluations of a task
-- does not count for that task.
create or replace view internal.curve_points as
with
curves as materialized (
    select
        *,
        dense_rank() over (partition by study_id order by depth, variant, measure, task, metric, filter) as curve,
        first_value(run_id) over (model order by seed nulls last, run_id) as first_run,
        count(distinct run_id) over model as seeds
    from internal.counted_scores
    window model as (partition by study_id, depth, variant, measure, task, metric, filter)
),

-- A checkpoint is the first optimiser step at or above the planned tokens, and steps of different seeds have slightly
-- different numbers of tokens. So two checkpoints belong together when each is the other's nearest and they are within
-- 5 % (a few optimiser steps at most). Most often the numbers are equal.
anchors as (
    select study_id, curve, tokens as anchor_tokens
    from curves
    where run_id = first_run
),

-- The nearest of a sorted list is the last one below or the first one above: neighbours, which an ASOF join finds without
-- comparing all with all (dense losses have thousands of points). In both directions, as each is to be the other's nearest.
run_anchors as (
    select distinct curves.study_id, curves.curve, curves.run_id, anchors.anchor_tokens
    from (select distinct study_id, curve, run_id from curves) as curves
    join anchors using (study_id, curve)
),

neighbours as (
    select own.study_id, own.curve, own.run_id, own.tokens, anchors.anchor_tokens
    from curves as own
    asof join anchors
        on (anchors.study_id, anchors.curve) = (own.study_id, own.curve) and anchors.anchor_tokens <= own.tokens
    union
    select own.study_id, own.curve, own.run_id, own.tokens, anchors.anchor_tokens
    from curves as own
    asof join anchors
        on (anchors.study_id, anchors.curve) = (own.study_id, own.curve) and anchors.anchor_tokens >= own.tokens
    union
    select anchors.study_id, anchors.curve, anchors.run_id, own.tokens, anchors.anchor_tokens
    from run_anchors as anchors
    asof join curves as own
        on (own.study_id, own.curve, own.run_id) = (anchors.study_id, anchors.curve, anchors.run_id)
            and own.tokens <= anchors.anchor_tokens
    union
    select anchors.study_id, anchors.curve, anchors.run_id, own.tokens, anchors.anchor_tokens
    from run_anchors as anchors
    asof join curves as own
        on (own.study_id, own.curve, own.run_id) = (anchors.study_id, anchors.curve, anchors.run_id)
            and own.tokens >= anchors.anchor_tokens
),

pairs as (
    select curves.*, neighbours.anchor_tokens, abs(curves.tokens - neighbours.anchor_tokens) as gap
    from curves
    join neighbours using (study_id, curve, run_id, tokens)
    where abs(curves.tokens - neighbours.anchor_tokens) <= 0.05 * greatest(curves.tokens, neighbours.anchor_tokens)
),

matched as (
    select *
    from pairs
    qualify row_number() over (partition by study_id, curve, run_id, tokens order by gap, anchor_tokens) = 1
        and row_number() over (partition by study_id, curve, run_id, anchor_tokens order by gap, tokens) = 1
)

select
    * exclude (model_id, seed, status, curve, first_run, anchor_tokens, gap)
        replace (round(avg(tokens) over point)::bigint as tokens),
    tokens as run_tokens
from matched
window point as (partition by study_id, curve, anchor_tokens)
qualify count(*) over point = seeds;
