-- One row: a point of a model's curve, its accuracy on a task or its perplexity on a text: the mean over its seeds.
-- needs: curve_points
create or replace view mean_curves as
select
    study_id, depth, variant, measure, task,
    tokens,
    avg(value order by run_id) as value,
    -- Seeds answer the same items, so their errors do not average out: the mean error is the cautious choice.
    case when count(stderr) = count(*) then avg(stderr) end as stderr,
    avg(chance) as chance,
    max(items) as items,
    any_value(seeds) as seeds
from curve_points
group by study_id, depth, variant, measure, task, tokens;

comment on view mean_curves is 'Accuracy and perplexity of every model against tokens, mean over its seeds';
