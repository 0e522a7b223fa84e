-- One row: a model and task, with its factor by the paper's rule in any metric: tokens to LA's best value.
-- needs: score_efficiency
--     from metric_efficiency('rouge', 'none', true)
-- A metric has no average over tasks: nobody can guess whether its values have a common scale.
create or replace macro metric_efficiency(metric_name, filter_name, higher_is_better) as table
select
    study_id, depth, variant, task,
    baseline_value,
    baseline_tokens,
    variant_tokens,
    factor,
    bound,
    near_chance
from score_efficiency('LA', case when higher_is_better then 1 else -1 end)
where metric = metric_name and filter = filter_name;

comment on macro table metric_efficiency is
    'metric_efficiency(metric, filter, higher_is_better): factors to LA''s best value of any metric, by task';
