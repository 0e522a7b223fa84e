-- One row: a row of a large table that is stored more than once. Must be empty.
--     from internal.rows_entered_twice_at(true)
-- Of every checkpoint, or of each run's latest one alone, which costs a report nothing where all of them cost seconds and
-- half a gigabyte. These tables have no primary keys (see tables/results.sql). Ingest replaces rows, so only rows inserted
-- by hand can show.
create or replace macro internal.rows_entered_twice_at(latest) as table
select
    'items' as table_name,
    run_id,
    tokens,
    concat_ws(', ', task, metric, filter, item_id) as row,
    count(*) as times
from items
where not latest or (run_id, tokens) in (select run_id, max(tokens) from items group by run_id)
group by run_id, tokens, task, metric, filter, item_id
having count(*) > 1

union all

select 'depth_attention', run_id, tokens, 'depths ' || query_depth || ' and ' || key_depth, count(*)
from depth_attention
where not latest or (run_id, tokens) in (select run_id, max(tokens) from depth_attention group by run_id)
group by run_id, tokens, query_depth, key_depth
having count(*) > 1

union all

select 'expert_usage', run_id, tokens, 'depth ' || depth || ', expert ' || expert, count(*)
from expert_usage
where not latest or (run_id, tokens) in (select run_id, max(tokens) from expert_usage group by run_id)
group by run_id, tokens, depth, expert
having count(*) > 1;
