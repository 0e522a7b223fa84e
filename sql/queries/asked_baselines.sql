-- The variants that a study with rows from elsewhere compares others with: its baseline, and those that it trains itself.
-- Two variants that were both measured elsewhere are not compared there. No rows: a study without such rows compares all.
select distinct models.variant
from models
join internal.variants using (study_id, variant)
left join origins using (study_id, variant)
where models.study_id = $study
    and (origins.variant is null or models.variant = variants.baseline)
    and exists (select 1 from origins as any_origin where any_origin.study_id = $study)
order by all
