-- The curated documents that stand in `texts`, which are documents of the token stream: whole, or a part of one that is
-- longer than a row. A text that was cut within a character has no row.
select text, arg_max(id, length(question) + length(response)) as id,
    arg_max(source, length(question) + length(response)) as source
from texts
join documents
    on (contains(text, question) and contains(text, response)) or contains(response, text)
group by text
