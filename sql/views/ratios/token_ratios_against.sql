-- One row: a model and metric (accuracy, loss) of a task, with its token ratio over a baseline of its depth.
--     from token_ratios_against('DR')
-- A null baseline stands for the study's own. The columns are the same as in `token_ratios`. Ratios are computed from all
-- points at once (sql/statistics/token_ratios.py). `outdated` is true if both models have a curve, and
-- their points or the score fixed in advance have changed since then. The ratio is then null until `dreamer
-- intervals` computes it again.
create or replace macro token_ratios_against(baseline_variant) as table
with curves as (
    from internal.measured_curves -- a named query, which DuckDB computes once
),

pairs as (
    select
        own.study_id, own.depth, own.variant, own.task,
        own.metric,
        baseline.variant as baseline,
        least(own.seeds, baseline.seeds) as seeds,
        own.tokens_trained,
        baseline.tokens_trained as baseline_tokens_trained,
        -- Null if the score of guessing is unknown; losses have no chance.
        case
            when own.metric = 'accuracy'
                then least(own.best, baseline.best) <= greatest(own.noise_floor, baseline.noise_floor)
            else false
        end as near_chance,
        computed.* exclude (study_id, depth, variant, baseline, task, metric, seeds),
        -- The main rows of a study, whose p-values are corrected together by Holm's method.
        own.task in ('average', 'validation')
            or not bool_or(own.task in ('average', 'validation')) over (partition by own.study_id) as headline,
        -- Comparisons of two models that were measured elsewhere are corrected apart from the study's own.
        origins.variant is not null and baseline_origins.variant is not null as known_before
    from curves as own
    join internal.variants using (study_id, variant)
    join curves as baseline
        on baseline.study_id = own.study_id
        and (baseline.depth, baseline.task, baseline.metric) is not distinct from (own.depth, own.task, own.metric)
        and baseline.variant = coalesce(baseline_variant, variants.baseline)
    left join origins on (origins.study_id, origins.variant) = (own.study_id, own.variant)
    left join origins as baseline_origins
        on (baseline_origins.study_id, baseline_origins.variant) = (own.study_id, baseline.variant)
    left join internal.targets as targets
        on (targets.study_id, targets.task, targets.metric) = (own.study_id, own.task, own.metric)
    left join internal.computed_ratios as computed
        on computed.digest = own.digest || baseline.digest
        and (computed.study_id, computed.depth, computed.variant, computed.baseline, computed.task, computed.metric)
            is not distinct from (own.study_id, own.depth, own.variant, baseline.variant, own.task, own.metric)
        and computed.target is not distinct from targets.score
    where own.variant <> baseline.variant
),

ranked as (
    select
        *,
        headline and p is not null as tested,
        count(*) over family as comparisons,
        row_number() over (family order by p, depth, variant, task, metric) as rank
    from pairs
    window family as (partition by study_id, known_before, headline and p is not null)
),

corrected as (
    select
        *,
        case when tested then
            least(1, max(p * (comparisons + 1 - rank)) over (partition by study_id, known_before, tested order by rank))
        end as headline_p
    from ranked
),

-- The only task of a study is the average.
tested_rows as (
    select
        *,
        case
            when headline then headline_p
            when count(*) filter (not headline) over model = 1
                and ratio is not distinct from max(ratio) filter (task = 'average') over model
                then max(headline_p) filter (task = 'average') over model
        end as p_adjusted,
        count(*) filter (task not in ('average', 'validation')) over model as tasks
    from corrected
    window model as (partition by study_id, depth, variant, metric)
),

-- A score that is reached during the decay is reached later than by a run that ends at this score, so its tokens are
-- too many. Scores within 3 % of the ends of both runs, or before any decay, need no bound.
decayed as (
    select
        tested_rows.*,
        variant_tokens / tokens_trained as share,
        baseline_tokens / baseline_tokens_trained as baseline_share,
        coalesce(variant_tokens > own.decay_from, false) as in_decay,
        coalesce(baseline_tokens > other.decay_from, false) as baseline_in_decay,
        own.decay_from is not null or other.decay_from is not null as decays
    from tested_rows
    left join internal.decays as own
        on (own.study_id, own.depth, own.variant)
            is not distinct from (tested_rows.study_id, tested_rows.depth, tested_rows.variant)
    left join internal.decays as other
        on (other.study_id, other.depth, other.variant)
            is not distinct from (tested_rows.study_id, tested_rows.depth, tested_rows.baseline)
)

select
    expected.study_id, expected.depth, expected.variant,
    coalesce(baseline_variant, expected.baseline) as baseline,
    expected.task,
    expected.measure as metric,
    ratios.score_low,
    ratios.score_high,
    ratios.ratio,
    ratios.low,
    ratios.high,
    1 / ratios.ratio as factor,
    ratios.at_least,
    ratios.reached,
    case
        when ratios.p_adjusted is null then null
        else ratios.p_adjusted < 0.05 and not coalesce(abs(ln(ratios.ratio)) < ratios.checkpoint_distance, false)
    end as significant,
    ratios.p_adjusted,
    case
        when expected.task = 'average' and significant then (
            select string_agg(others.left_out, ', ' order by others.left_out)
            from internal.ratios_without as others
            where (others.study_id, others.depth, others.variant, others.metric, others.baseline)
                    is not distinct from (ratios.study_id, ratios.depth, ratios.variant, ratios.metric, ratios.baseline)
                and others.digest = ratios.digest
                and not (others.significant and (others.ratio > 1) = (coalesce(ratios.ratio, ratios.low) > 1))
        )
    end as depends_on,
    ratios.seeds,
    ratios.detectable,
    ratios.target is not null as in_advance,
    ratios.near_chance,
    coalesce(abs(ln(ratios.ratio)) < ratios.checkpoint_distance, false) as within_checkpoint,
    coalesce(
        ratios.ratio is not null and ratios.decays and not (ratios.in_decay or ratios.baseline_in_decay), false
    ) as before_decay,
    case
        when ratios.share is null or ratios.baseline_share is null then null
        when not (ratios.in_decay or ratios.baseline_in_decay) then null
        when least(ratios.share, ratios.baseline_share) >= 0.97 then null
        when ratios.share = ratios.baseline_share then null
        when ratios.share < ratios.baseline_share then 'at most'
        else 'at least'
    end as decay_bound,
    coalesce(ratios.tasks <= 1, false) as one_task,
    exists (
        from internal.cut_curves as cut
        where (cut.study_id, cut.depth) is not distinct from (expected.study_id, expected.depth)
            and cut.variant in (expected.variant, coalesce(baseline_variant, expected.baseline))
    ) as cut_short,
    exists (
        from tuning
        where (tuning.study_id, tuning.depth, tuning.variant)
            is not distinct from (expected.study_id, expected.depth, expected.variant)
    ) as tuned,
    case when ratios.tested then ratios.comparisons end as comparisons,
    ratios.seeds is not null and ratios.digest is null as outdated,
    ratios.at_least_low,
    ratios.at_least_high,
    ratios.variant_tokens,
    ratios.baseline_tokens,
    expected.place
from internal.expected_curves as expected
left join decayed as ratios
    on (ratios.study_id, ratios.depth, ratios.variant, ratios.task, ratios.metric)
        is not distinct from (expected.study_id, expected.depth, expected.variant, expected.task, expected.measure)
where expected.variant <> coalesce(baseline_variant, expected.baseline)
order by
    expected.study_id, expected.depth, expected.place, expected.measure,
    expected.task <> 'average', expected.task <> 'validation', expected.task;
