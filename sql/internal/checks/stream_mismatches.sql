-- One row: a token count at which runs of one study and seed have seen different data. Empty when comparisons are fair.
-- Checkpoints with different numbers of tokens are not compared.
create or replace view internal.stream_mismatches as
select
    model_runs.study_id,
    model_runs.seed,
    checkpoints.tokens,
    count(*) as runs,
    count(distinct checkpoints.stream_hash) as hashes,
    string_agg(checkpoints.run_id, ', ' order by checkpoints.run_id) as run_ids
from checkpoints
join internal.model_runs using (run_id)
where checkpoints.stream_hash is not null and checkpoints.tokens > 0
group by model_runs.study_id, model_runs.seed, checkpoints.tokens
having hashes > 1
order by model_runs.study_id, model_runs.seed, checkpoints.tokens;
