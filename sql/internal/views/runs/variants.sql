-- One row: a variant of a study, with its place in the study's order and the baseline of the study.
-- A study that names no baseline has its first variant as baseline. Variants without a place come last, by name.
create or replace view internal.variants as
with firsts as (
    select study_id, variant, coalesce(min(place), 1e9) as place
    from (
        select study_id, coalesce(variant, model_id) as variant, place from models
        union
        select study_id, variant, null from internal.model_runs
    )
    group by study_id, variant
)

select
    study_id, variant,
    row_number() over (partition by study_id order by variant is distinct from baseline, place, variant) as place,
    coalesce(studies.baseline, first_value(variant) over (partition by study_id order by place, variant)) as baseline
from firsts
left join studies using (study_id);
