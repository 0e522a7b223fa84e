r"""Evaluate column expressions: SQL of DuckDB over the columns of one file.

    problem
        a column; "hints/solutions" in quotes where the name is no word
    concat(Body, ' ', Question)
        texts joined; concat_ws(' ', Body, Question) leaves null ones out
    coalesce(problem, question)
        the first that is not null; names that the file lacks are left out
    answered(messages)
        the last response of a conversation, which may also be text of JSON
    asked(messages)
        what was said before that response: the question, in a longer conversation with its history
    said(prompt)
        all turns of a conversation: the question, where another column has the response
    list_filter(messages, lambda m: m.role = 'assistant')[-1].content
        a turn, by its role
    list_extract(responses, 1).response
        the first element of a list
    unnest(generations)
        every element of a list; each becomes a response of its own
    choices[answer::int + 1]
        numbers of JSON and CSV are texts; positions count from 1
    boxed(solution)
        the content of the last balanced \boxed{...} or \fbox{...}, or ''
    after(answer, '####')
        what follows the last "####" on its line, without thousands commas
    lines(hints)
        a list of texts, also where the column holds it as JSON or Python text
    option(options, correct)
        in "a ) 38 , b ) 27.675" the text of the letter in `correct`

A list that is left at the end becomes a text of one element on a line; of the parts of a message
(`type`, `text`) it is their texts. Expressions see the columns
and nothing else: DuckDB reads and writes no file here, loads no extension, and its settings are
locked.
"""

from __future__ import annotations

import atexit
import re
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.sources.columns.answers import TEMPLATE, last_boxed
from dreamer_study.pipeline.sources.columns.conversations import answered, asked, read_list, said
from dreamer_study.pipeline.sources.files.turns import THOUGHTS, turn_fields
from dreamer_study.pipeline.storage.memory import bounded_memory, bytes_to_take

_NAME = r'(?:"[^"]+"|[A-Za-z_]\w*)'
_COALESCE = re.compile(rf"\bcoalesce\(\s*({_NAME}(?:\s*,\s*{_NAME})+)\s*\)", re.IGNORECASE)
_UNNEST = re.compile(r"\bunnest\s*\(", re.IGNORECASE)
# `messages[1]` and `list_extract(messages, ...)`
_BY_PLACE = re.compile(
    rf"({_NAME})\s*\[\s*-?\d+\s*\]|\b(?:list|array)_extract\(\s*({_NAME})\s*,", re.IGNORECASE
)
# Bytes of one block of rows, which has about 8 MB, or one row of 64 MB.
MOST_MEMORY = 2 * 10**9
LEAST_MEMORY = 4 * 10**8
ROWS_AT_ONCE = 2048  # of a result, as many as DuckDB computes at once
TOO_MUCH = "its SQL takes too much memory for one block of rows; raise data.memory"
# the text of a part of a message; a picture or another thing leaves a mark
_PART = """lambda p: case
    when p."type" in ({thoughts}) then null
    when p."text" is not null then p."text"
    else chr(65532)
end""".format(thoughts=", ".join(f"'{name}'" for name in THOUGHTS))


def as_list(text: str) -> list[str]:
    """Convert a text to a list of texts: a list as JSON or Python writes it, or the text itself.

    Empty elements are left out: "['a', 'b']" gives two elements, "a" one, "" none.
    """
    values = read_list(text)
    if values is None:
        values = [text]
    return [str(value) for value in values if value not in (None, "")]


_FUNCTIONS: dict[str, tuple[Callable[[str], Any], pa.DataType, str]] = {
    "boxed": (last_boxed, pa.string(), "VARCHAR"),
    "asked_in": (asked, pa.string(), "VARCHAR"),
    "said_in": (said, pa.string(), "VARCHAR"),
    "answered_in": (answered, pa.string(), "VARCHAR"),
    "listed": (as_list, pa.list_(pa.string()), "VARCHAR[]"),
}
_MACROS = r"""
create macro lines(x) as listed(to_json(x) ->> '$');
create macro asked(x) as asked_in(to_json(x) ->> '$');
create macro said(x) as said_in(to_json(x) ->> '$');
create macro answered(x) as answered_in(to_json(x) ->> '$');
create macro bare_number(x) as
    case when regexp_full_match(x, '-?\$?-?\d[\d,]*(\.\d+)?%?')
        then replace(replace(x, ',', ''), '$', '')
        else x
    end;
create macro after(x, mark) as bare_number(regexp_extract(
    regexp_replace(x, '{template}', '', 'g'),
    '(?s).*' || regexp_escape(mark) || '\s*([^\n]*?)\s*?\.?[^\S\n]*(?:\n|$)',
    1
));
create macro option(options, letter) as regexp_extract(
    options,
    '(?s)(?:^|[\s,])' || lower(trim(letter)) || ' \) ?(.*?)[\s,]*(?:[\s,]'
        || chr(ascii(lower(trim(letter))) + 1) || ' \) |$)',
    1
)
"""


def parse(text: Any) -> str:
    """Check that a text is one SQL expression, and return it. Raises InputError for other texts."""
    if not isinstance(text, str):
        raise InputError(f"column expression {text!r} is no text; write one SQL expression")
    where = f"column expression {text!r} is no SQL expression: "
    _with_reason(lambda: duckdb.SQLExpression(text), where)
    return text


def takes_elements(text: str) -> bool:
    """Tell whether an expression gives every element of a list."""
    return bool(_UNNEST.search(text))


def bind(text: str, schema: pa.Schema) -> str:
    """Bind an expression to the columns of a file.

    Returns SQL that gives one text, or null, for each row or element. Raises InputError, with
    DuckDB's reason, for columns and functions that do not exist and for objects, which are no text.
    """
    columns = {name.lower() for name in schema.names}

    def with_columns_of_the_file(coalesce: re.Match[str]) -> str:
        names = [name.strip() for name in coalesce[1].split(",")]
        of_the_file = [name for name in names if name.strip('"').lower() in columns]
        return f"coalesce({', '.join(of_the_file or names)})"

    text = _COALESCE.sub(with_columns_of_the_file, parse(text))
    if text in schema.names and schema.field(text).type == pa.string():
        return quoted(text)

    def try_out() -> tuple[Any, Any]:
        rows = _database().cursor().from_arrow(schema.empty_table())
        bound = rows.select(duckdb.SQLExpression(text))
        return bound.types, bound.fetchall()

    types, rows_of_no_row = _with_reason(try_out, f"{text}: ")
    if rows_of_no_row:  # an aggregate, such as count(*)
        raise InputError(f"{text}: it gives one value for all rows, where one for each is wanted")
    if len(types) > 1:
        raise InputError(f"{text}: {len(types)} columns, where one text is wanted")
    kind = types[0]
    is_list = kind.id in ("list", "array")
    base = kind.children[0][1] if is_list else kind
    fields = [name for name, _ in base.children] if base.id == "struct" else []
    if is_list and {"type", "text"} <= set(fields):
        return f"array_to_string(list_transform({text}, {_PART}), chr(10))"
    if base.id in ("struct", "map"):
        names = ", ".join(fields or ("key", "value"))
        raise InputError(f"{text} is not text but has the fields {names}; name one of them")
    if base.id in ("list", "array"):
        raise InputError(f"{text} is not text but holds lists in a list; name one, as by [1]")
    return f"array_to_string(({text})::VARCHAR[], chr(10))" if is_list else text


def check_turns(text: str, schema: pa.Schema) -> None:
    """Raise InputError for a response that takes a turn of a conversation by its place.

    That turn may be the user's.
    """
    for by_place in _BY_PLACE.finditer(text):
        turns = by_place[1] or by_place[2]
        fields = _turn_fields(turns.strip('"'), schema)
        if fields:
            role, said = fields
            raise InputError(
                f"{text}: a turn that is taken by its place may be the user's; take it by its role,"
                f" list_filter({turns}, lambda m: m.\"{role}\" = 'assistant')[-1].{said}"
            )


def _turn_fields(column: str, schema: pa.Schema) -> tuple[str, str] | None:
    """Return the fields of a column of conversations: that of the role and that of the text."""
    kind = schema.field(column).type if column in schema.names else pa.null()
    if not pa.types.is_list(kind) or not pa.types.is_struct(kind.value_type):
        return None
    return turn_fields({field.name: None for field in kind.value_type})


def evaluate(bound: Sequence[str], table: pa.Table, record: str | None = None) -> pa.Table:
    """Evaluate bound expressions over a table.

    With the expression `record` they are evaluated over the one column `o` that `record` gives. The
    columns of the result are named by their numbers. Raises InputError, with DuckDB's reason, where
    a value cannot be cast as an expression says.
    """
    expressions = {str(number): text for number, text in enumerate(bound)}
    plain: dict[str, Any] = {}
    if record is None and not any(map(takes_elements, bound)):
        # Each row stays one row, so plain columns need not pass through DuckDB.
        names = {quoted(name): name for name in table.column_names}
        plain = {
            number: table[names[text]] for number, text in expressions.items() if text in names
        }
    computed = [
        duckdb.SQLExpression(text).alias(number)
        for number, text in expressions.items()
        if number not in plain
    ]

    def compute() -> pa.Table:
        rows = _database().cursor().from_arrow(table)
        if record:
            rows = rows.select(duckdb.SQLExpression(record).alias("o"))
        return _table_within(rows.select(*computed).to_arrow_reader(ROWS_AT_ONCE))

    columns = dict(plain)
    if computed:
        results = _with_reason(compute)
        columns |= {name: results[name] for name in results.column_names}
    return pa.table({number: _without_nan(columns[number]) for number in expressions})


def _table_within(batches: pa.RecordBatchReader) -> pa.Table:
    """Read a result. Raises InputError where it has more bytes than SQL may take.

    DuckDB's own limit counts what a query takes, and not its result: `unnest(range(10000000000))`
    has no end.
    """
    read: list[pa.RecordBatch] = []
    left = _most_memory()
    for batch in batches:
        left -= batch.nbytes
        if left < 0:
            raise InputError(TOO_MUCH)
        read.append(batch)
    return pa.Table.from_batches(read, batches.schema)


def _without_nan(column: Any) -> Any:
    """Replace NaN, which pandas writes for a missing value, by null."""
    if pa.types.is_floating(column.type):
        return pc.if_else(pc.is_nan(column), None, column)
    return column


def quoted(name: str) -> str:
    """Quote a name for SQL."""
    return '"' + name.replace('"', '""') + '"'


def _database() -> duckdb.DuckDBPyConnection:
    return _database_within(_most_memory())


def _most_memory() -> int:
    """Return the bytes that a query may take here, and its result."""
    return max(min(bytes_to_take() // 2, MOST_MEMORY), LEAST_MEMORY)


@cache
def _database_within(memory: int) -> duckdb.DuckDBPyConnection:
    closed = {"enable_external_access": "false", "python_enable_replacements": "false"}
    # no thread of its own: one that asks for memory while a reader's limit holds ends the process
    alone = {"threads": "1", "async_threads": "0"}
    bounds = {**alone, "memory_limit": f"{memory}B"}
    database = duckdb.connect(":memory:", config={**closed, **bounds})
    for name, (function, kind, result) in _FUNCTIONS.items():
        by_column = partial(_by_column, function, kind)
        # DuckDB's stubs know no names of types in capitals.
        database.create_function(  # type: ignore[call-overload]
            name, by_column, ["VARCHAR"], result, type="arrow", null_handling="special"
        )
    database.execute(_MACROS.replace("{template}", TEMPLATE))
    database.execute("set lock_configuration = true")
    atexit.register(_close, database)
    return database


def _close(database: duckdb.DuckDBPyConnection) -> None:
    """Close the database before Python ends: DuckDB complains of functions that outlive Python."""
    for name in _FUNCTIONS:
        database.remove_function(name)
    database.close()
    _database_within.cache_clear()


def _by_column(
    function: Callable[[str], Any], kind: pa.DataType, texts: pa.ChunkedArray
) -> pa.Array:
    return pa.array([function(text or "") for text in texts.to_pylist()], kind)


def _with_reason(work: Callable[[], Any], where: str = "") -> Any:
    """Return what `work` returns. Raises InputError, with the reason, for an error of DuckDB.

    DuckDB's own limit does not count lists such as range(100000000), which it computes when it
    binds an expression; so the process may take no more either.
    The InputError is raised outside of the `except`, so that nothing holds DuckDB's error: one that
    outlives the interpreter makes DuckDB complain at the end.
    """
    try:
        with bounded_memory(2 * _most_memory()):
            return work()
    except MemoryError:
        reason = TOO_MUCH
    except duckdb.Error as error:
        reason = _reason(error)
    raise InputError(f"{where}{reason}")


def _reason(error: Exception) -> str:
    """Return the first line of DuckDB's message, and its hint, without the kind of the error."""
    if isinstance(error, duckdb.OutOfMemoryException):
        return TOO_MUCH
    first, *rest = str(error).strip().splitlines()
    reason = first.partition("Error: ")[2] or first
    for line in rest:
        if line.startswith("Did you mean"):
            reason += f"; {line[0].lower()}{line[1:]}"
            break
    return reason.replace(" in FROM clause!", "")
