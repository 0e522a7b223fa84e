-- One row: a model and task, with how many times fewer tokens the model needs to a baseline's best accuracy.
-- needs: score_efficiency
--     from efficiency_against('DR')
create or replace macro efficiency_against(baseline_variant) as table
select
    study_id, depth, variant, task,
    baseline_value as baseline_accuracy,
    baseline_tokens,
    variant_tokens,
    variant_tokens_interpolated,
    tokens_trained,
    factor,
    factor_interpolated,
    bound,
    near_chance
from score_efficiency(baseline_variant, null)
where measure = 'accuracy';

comment on macro table efficiency_against is
    'efficiency_against(variant): token factors of every model to the best accuracy of that variant';
