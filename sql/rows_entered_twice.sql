-- Rows of the large tables that are there more than once: must be empty. The other tables have primary keys; these have
-- none (see schema.sql). results.ingest replaces, so only rows inserted by hand can show here.
create or replace view rows_entered_twice as
select 'items' as table_name, run_id, tokens, task || ', ' || metric || ', ' || filter || ', ' || item_id as row, count(*) as times
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

comment on view rows_entered_twice is 'Rows of items, depth_attention and expert_usage that are there twice: must be empty';
