-- One row: the accuracy of a run at the end of its model's curve, on the items of a task that have one value of a fact.
create or replace macro accuracy_by_fact(study) as table
select
    ends.study_id, ends.depth, ends.variant, ends.run_id, ends.task,
    facts.fact,
    facts.value,
    ends.tokens,
    avg(ends.value) as accuracy,
    case when count(*) > 1 then stddev_samp(ends.value) / sqrt(count(*)) end as stderr,
    count(*) as items,
    any_value(ends.chance) as chance
from internal.final_items(study) as ends
join item_facts as facts using (study_id, task, item_id)
group by ends.study_id, ends.depth, ends.variant, ends.run_id, ends.task, facts.fact, facts.value, ends.tokens
order by ends.depth, ends.variant, ends.task, facts.fact, facts.value, ends.run_id;
