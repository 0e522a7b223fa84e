-- High over low of the widest interval of the average accuracy against the baseline; null where one has none.
select if(count(*) = count(high / low), max(high / low), null) as high_over_low
from internal.computed_ratios as computed
join internal.variants using (study_id, variant)
where study_id = $study and variant in (select unnest($variants)) and variant <> variants.baseline
    and computed.baseline = variants.baseline and task = 'average' and metric = 'accuracy'
