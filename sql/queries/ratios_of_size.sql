-- The ratios of a study's averages and held-out losses, with their errors and with the size of the baseline that they are over.
select
    ratios.depth,
    ratios.variant,
    ratios.baseline,
    ratios.task,
    ratios.metric,
    ratios.ratio,
    ratios.low,
    ratios.high,
    ratios.at_least,
    ratios.reached,
    ratios.decay_bound,
    ratios.seeds,
    ratios.outdated,
    sqrt(computed.seed_error ** 2 + coalesce(computed.item_error, 0) ** 2) as error,
    coalesce(computed.item_error, 0) as item_error,
    computed.degrees_of_freedom,
    models.flops_per_token,
    models.parameters,
    models.config,
    trained.tokens as trained_tokens
from token_ratios as ratios
join internal.computed_ratios as computed
    on (computed.study_id, computed.depth, computed.variant, computed.baseline, computed.task, computed.metric)
        is not distinct from (ratios.study_id, ratios.depth, ratios.variant, ratios.baseline, ratios.task, ratios.metric)
join models
    on (models.study_id, models.depth, models.variant) is not distinct from (ratios.study_id, ratios.depth, ratios.baseline)
cross join (select max(tokens) as tokens from internal.study_evaluations where study_id = $study) as trained
where ratios.study_id = $study and ratios.task in ('average', 'validation')
order by all
