-- High over low of the widest interval of the average accuracy against the baseline; null where one has none.
-- A model without scores in common with the baseline has the interval of its lower bound.
select if(count(*) = count(width), max(width), null) as high_over_low
from (
    select coalesce(high / low, at_least_high / at_least_low) as width
    from internal.computed_ratios as computed
    join internal.variants using (study_id, variant)
    where study_id = $study and variant in (select unnest($variants)) and variant <> variants.baseline
        and computed.baseline = variants.baseline and task = 'average' and metric = 'accuracy'
)
