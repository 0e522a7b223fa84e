-- The data sets that a study was trained on, with licences.
select source as name, 'data' as use, repository, coalesce(revision, '') as revision, coalesce(licence, '') as licence
from table_4
where study_id = $study
