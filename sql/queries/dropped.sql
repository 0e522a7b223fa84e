-- Documents that curation dropped, or kept in spite of a finding of $grade, beside what caused that: a document or a
-- benchmark item. $each: one of each reason, the most frequent reason first; else $sample of all, at random by $seed.
with listed as (
    select string_split(filename, '/')[-4] as stage, id, source, reason, because, question, response, answer
    from dropped -- files <store>/<stage>/<key>/dropped/<shard>.parquet
    union all
    select 'decontaminate', id, matches.source, grade, item, question, response, answer
    from matches join kept using (id)
    where grade = $grade
),
found as (
    select listed.*, matches.grade, coalesce(near.similarity, matches.coverage)::double as score
    from listed
    left join near on stage = 'deduplicate' and near.id = listed.id and near.because = listed.because
    left join matches on stage = 'decontaminate' and matches.id = listed.id and item = listed.because
    where coalesce(stage = $stage, true)
        and coalesce(listed.source = $source, true)
        and coalesce(reason = $reason, true)
        and coalesce(listed.id = $id, true)
        and ($grade is null or matches.grade = $grade)
),
ranked as (
    select *, md5(concat($seed, stage, id)) as draw,
        count(*) over (partition by reason) as documents,
        row_number() over (partition by reason order by draw) as place
    from found
),
chosen as (
    from ranked
    where not $each or place = 1
    order by case when $each then -documents end, draw
    limit $sample
)
select stage, chosen.id, chosen.source, reason, because, grade, score,
    chosen.question, chosen.response, chosen.answer,
    coalesce(causes.question, items.question) as cause_question,
    coalesce(causes.response, items.answer) as cause_response
from chosen
left join causes on stage = 'deduplicate' and causes.id = because
left join items on stage = 'decontaminate' and items.id = because
order by case when $each then -documents end, draw
