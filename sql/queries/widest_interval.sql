-- High over low of the widest interval of the average accuracy against the baseline, of the bound where it says more.
select if(
    count(*) = count(if(bounded, bound_high, high)),
    max(if(bounded, bound_high / bound_low, high / low)),
    null
) as high_over_low
from internal.computed_factors as computed
join internal.variants using (study_id, variant)
where study_id = $study and variant in (select unnest($variants)) and variant <> variants.baseline
    and computed.baseline = variants.baseline and task = 'average' and metric = 'accuracy'
