select output, rows, digest from ingested where study_id = $study order by output
