-- One row: a row of a large table that is stored more than once. Must be empty.
-- These tables have no primary keys (see tables/results.sql). Ingest replaces rows, so only rows inserted by hand can show.
create or replace view internal.rows_entered_twice as
select
    'items' as table_name,
    run_id,
    tokens,
    concat_ws(', ', task, metric, filter, item_id) as row,
    count(*) as times
from items
group by run_id, tokens, task, metric, filter, item_id
having count(*) > 1

union all

select 'depth_attention', run_id, tokens, 'depths ' || query_depth || ' and ' || key_depth, count(*)
from depth_attention
group by run_id, tokens, query_depth, key_depth
having count(*) > 1

union all

select 'expert_usage', run_id, tokens, 'depth ' || depth || ', expert ' || expert, count(*)
from expert_usage
group by run_id, tokens, depth, expert
having count(*) > 1;
