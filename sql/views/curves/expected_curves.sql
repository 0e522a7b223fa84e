-- One row: a model of a study and a measure of one of the study's tasks: a curve that the model has, or lacks.
-- needs: chosen_metric, model_runs
-- So that a model without evaluations has a row without numbers in the views of factors.
create or replace view expected_curves as
with study_models as (
    select study_id, depth, coalesce(variant, model_id) as variant from models
    union
    select study_id, depth, variant from model_runs
),

measured as (
    select study_id, kind as measure, task from chosen_metric
    union
    select study_id, kind, 'average' from chosen_metric where averaged
)

select
    study_id, study_models.depth, study_models.variant, measured.measure, measured.task
from study_models
join measured using (study_id)
where measured.measure in ('accuracy', 'loss');

comment on view expected_curves is 'Every model of a study with every accuracy and loss that the study has of a task';
