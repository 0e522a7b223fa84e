-- How often every expert was selected, at each depth and (depth null) in the whole model, and among how many experts.
--
-- A recurrent model shares its experts over depths: an expert's selections add up, and at each depth all experts could
-- have been selected. A layered one has experts of its own in every layer. The model's configuration says which it is;
-- without one, the variant. Experts that were never selected may have no row: the configuration's number counts them.
create or replace view expert_selections as
with run_kinds as (
    select
        *,
        coalesce(try_cast(try_cast(config as json) ->> '$.recurrent' as boolean), variant <> 'LA') as shared,
        try_cast(try_cast(config as json) ->> '$.experts' as bigint) as configured
    from model_runs
),

usage as (
    select
        run_kinds.study_id,
        run_kinds.depth as model_depth,
        run_kinds.variant,
        expert_usage.run_id,
        coalesce(run_kinds.shared, true) as shared,
        run_kinds.configured,
        expert_usage.tokens,
        expert_usage.depth,
        expert_usage.expert,
        sum(expert_usage.selections)::bigint as selections
    from expert_usage
    left join run_kinds using (run_id) -- a run that no study names keeps its curves
    group by all
),

layer_sizes as (
    select study_id, run_id, tokens, depth, greatest(count(*), any_value(configured)) as experts
    from usage
    group by study_id, run_id, tokens, depth
),

model_sizes as (
    select
        study_id,
        run_id,
        tokens,
        case
            when usage.shared then greatest(count(distinct usage.expert), any_value(usage.configured))
            else (
                select sum(layer_sizes.experts)
                from layer_sizes
                where layer_sizes.study_id is not distinct from usage.study_id
                    and layer_sizes.run_id = usage.run_id
                    and layer_sizes.tokens = usage.tokens
            )::bigint
        end as experts
    from usage
    group by study_id, run_id, tokens, shared
),

by_depth as (
    select
        usage.study_id, usage.model_depth, usage.variant, usage.run_id, usage.tokens, usage.depth, usage.expert,
        usage.selections,
        case when usage.shared then model_sizes.experts else layer_sizes.experts end as experts
    from usage
    join layer_sizes
        on layer_sizes.study_id is not distinct from usage.study_id
        and layer_sizes.run_id = usage.run_id
        and layer_sizes.tokens = usage.tokens
        and layer_sizes.depth = usage.depth
    join model_sizes
        on model_sizes.study_id is not distinct from usage.study_id
        and model_sizes.run_id = usage.run_id
        and model_sizes.tokens = usage.tokens
),

in_all as (
    select
        usage.study_id, usage.model_depth, usage.variant, usage.run_id, usage.tokens, null as depth, usage.expert,
        sum(usage.selections)::bigint as selections,
        any_value(model_sizes.experts) as experts
    from usage
    join model_sizes
        on model_sizes.study_id is not distinct from usage.study_id
        and model_sizes.run_id = usage.run_id
        and model_sizes.tokens = usage.tokens
    group by
        usage.study_id, usage.model_depth, usage.variant, usage.run_id, usage.tokens, usage.expert,
        case when not usage.shared then usage.depth end
)

select * from by_depth
union all by name
select * from in_all;

comment on view expert_selections is 'Selections of every expert at each depth and (depth null) in the whole model';
