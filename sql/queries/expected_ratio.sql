select
    ratio, low, high,
    at_least, at_least_low, reached,
    coalesce(degrees_of_freedom, 'infinity') as degrees_of_freedom, -- null where all seeds are alike
    sqrt(seed_error ** 2 + coalesce(item_error, 0) ** 2) as error
from internal.computed_ratios as computed
join internal.variants using (study_id, variant)
where study_id = $study and variant = $variant and computed.baseline = coalesce($against, variants.baseline)
    and task = $task and metric = $metric
order by computed.depth
