-- One row: a model of a study and a measure of one of the study's tasks: a curve that the model has, or lacks.
-- So that a model without evaluations has a row without numbers in the views of factors.
create or replace view internal.expected_curves as
with study_models as (
    select study_id, depth, coalesce(variant, model_id) as variant from models
    union
    select study_id, depth, variant from internal.model_runs
),

measured as (
    select study_id, kind as measure, task from internal.chosen_metric
    union
    select study_id, kind, 'average' from internal.chosen_metric where averaged
)

select
    study_id, study_models.depth, variant, measured.measure, measured.task,
    variants.place,
    variants.baseline
from study_models
join internal.variants using (study_id, variant)
join measured using (study_id)
where measured.measure in ('accuracy', 'loss');
