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

import ast
import atexit
import json
import re
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.sources.files.json_values import ROLES, NotText, text_of

_NAME = r'(?:"[^"]+"|[A-Za-z_]\w*)'
_COALESCE = re.compile(rf"\bcoalesce\(\s*({_NAME}(?:\s*,\s*{_NAME})+)\s*\)", re.IGNORECASE)
_UNNEST = re.compile(r"\bunnest\s*\(", re.IGNORECASE)
# `messages[1]` and `list_extract(messages, ...)`
_BY_PLACE = re.compile(
    rf"({_NAME})\s*\[\s*-?\d+\s*\]|\b(?:list|array)_extract\(\s*({_NAME})\s*,", re.IGNORECASE
)
# the text of a part of a message; a picture or another thing leaves a mark
MOST_MEMORY = "2GB"  # of one block of rows, which has about 8 MB
_PART = 'lambda p: case when p."type" = \'text\' then p."text" else chr(65532) end'
_USERS = ("user", "human")
_MODELS = ("assistant", "gpt", "model")
_BOX = re.compile(r"\\(?:boxed|fbox)")
_BARE = re.compile(r"\s+([^\s${}\\]+)")  # "\boxed 5"
_BRACE = re.compile(r"[{}]|\\.", re.DOTALL)  # an escaped brace, such as \{, is none


def as_list(text: str) -> list[str]:
    """Convert a text to a list of texts: a list as JSON or Python writes it, or the text itself.

    Empty elements are left out: "['a', 'b']" gives two elements, "a" one, "" none.
    """
    values = _read_list(text)
    if values is None:
        values = [text]
    return [str(value) for value in values if value not in (None, "")]


def last_boxed(text: str) -> str:
    r"""Return the content of the last \boxed{...} or \fbox{...}, trimmed; "" without one.

    Its braces must be balanced; "\boxed 5" counts too.
    Example: r"so \boxed{1} or \boxed{\frac{1}{2}}" gives r"\frac{1}{2}".
    """
    marks = [*_BOX.finditer(text)]
    if not marks:
        return ""
    closing = _closing_braces(text)
    for mark in reversed(marks):
        opening = mark.end()
        if text.startswith("{", opening):
            if opening in closing:
                return text[opening + 1 : closing[opening]].strip()
            continue
        bare = _BARE.match(text, opening)
        if bare:
            return bare[1].rstrip(".,;")
    return ""


def _closing_braces(text: str) -> dict[int, int]:
    """Find where each brace that is opened is closed.

    The text is read once for all boxes: a model that loops writes thousands of them.
    """
    closing: dict[int, int] = {}
    opened: list[int] = []
    for brace in _BRACE.finditer(text):
        if brace[0] == "{":
            opened.append(brace.start())
        elif brace[0] == "}" and opened:
            closing[opened.pop()] = brace.start()
    return closing


def asked(text: str) -> str:
    """Return what was said before the last response of a conversation; "" without a response.

    Turns of users and models are texts with a blank line between them. What a system was told is
    left out.
    """
    return "\n\n".join(said for _, said in _before_and_response(text)[0])


def said(text: str) -> str:
    """Return all turns of a conversation, as `asked` writes them; "" where the model is first."""
    turns = _turns(text)
    if not turns or turns[0][0]:
        return ""
    return "\n\n".join(said for _, said in turns)


def answered(text: str) -> str:
    """Return the last response of a conversation; "" without one."""
    return _before_and_response(text)[1]


def _before_and_response(text: str) -> tuple[list[tuple[bool, str]], str]:
    """Split a conversation at its last response: the turns before, and the response.

    Turns are pairs: whether the model says it, and what is said. A conversation whose first
    question is missing has none, nor has one with a turn that holds no text.
    """
    turns = _turns(text)
    while turns and not turns[-1][0]:
        turns.pop()  # what nobody answered
    if not turns:
        return [], ""
    before = turns[:-1]
    return (before if before and not before[0][0] else []), turns[-1][1]


def _turns(text: str) -> list[tuple[bool, str]]:
    """Read the turns of a conversation, which a column may hold as JSON or Python text."""
    turns = []
    for turn in _read_list(text) or ():
        if not isinstance(turn, dict):
            return []
        for role, said in ROLES.items():
            speaker = str(turn.get(role)).lower()
            if speaker in (*_USERS, *_MODELS):
                try:
                    turns.append((speaker in _MODELS, text_of(turn.get(said) or "").strip()))
                except NotText:
                    return []
    return turns


def _read_list(text: str) -> list[Any] | None:
    """Read a list as JSON or Python writes it; None for any other text."""
    if text.strip().startswith("["):
        for read in (json.loads, ast.literal_eval):
            try:
                value = read(text.strip())
            except (ValueError, SyntaxError, RecursionError, MemoryError):
                continue  # not this notation: the text itself may be meant
            return value if isinstance(value, list) else None
    return None


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
    x, '(?s).*' || regexp_escape(mark) || '\s*([^\n]*?)\s*?\.?[^\S\n]*(?:\n|$)', 1
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
        role = _role_field(turns.strip('"'), schema)
        if role:
            raise InputError(
                f"{text}: a turn that is taken by its place may be the user's; take it by its role,"
                f" list_filter({turns}, lambda m: m.\"{role}\" = 'assistant')[-1].{ROLES[role]}"
            )


def _role_field(column: str, schema: pa.Schema) -> str:
    """Return the field of a column of conversations that says who speaks; "" without one."""
    kind = schema.field(column).type if column in schema.names else pa.null()
    if not pa.types.is_list(kind) or not pa.types.is_struct(kind.value_type):
        return ""
    roles = (role for role in ROLES if kind.value_type.get_field_index(role) >= 0)
    return next(roles, "")


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
        return rows.select(*computed).to_arrow_table()

    columns = dict(plain)
    if computed:
        results = _with_reason(compute)
        columns |= {name: results[name] for name in results.column_names}
    return pa.table({number: _without_nan(columns[number]) for number in expressions})


def _without_nan(column: Any) -> Any:
    """Replace NaN, which pandas writes for a missing value, by null."""
    if pa.types.is_floating(column.type):
        return pc.if_else(pc.is_nan(column), None, column)
    return column


def quoted(name: str) -> str:
    """Quote a name for SQL."""
    return '"' + name.replace('"', '""') + '"'


@cache
def _database() -> duckdb.DuckDBPyConnection:
    closed = {"enable_external_access": "false", "python_enable_replacements": "false"}
    bounds = {"threads": "1", "memory_limit": MOST_MEMORY}
    database = duckdb.connect(":memory:", config={**closed, **bounds})
    for name, (function, kind, result) in _FUNCTIONS.items():
        by_column = partial(_by_column, function, kind)
        # DuckDB's stubs know no names of types in capitals.
        database.create_function(  # type: ignore[call-overload]
            name, by_column, ["VARCHAR"], result, type="arrow", null_handling="special"
        )
    database.execute(_MACROS)
    database.execute("set lock_configuration = true")
    atexit.register(_close, database)
    return database


def _close(database: duckdb.DuckDBPyConnection) -> None:
    """Close the database before Python ends: DuckDB complains of functions that outlive Python."""
    for name in _FUNCTIONS:
        database.remove_function(name)
    database.close()
    _database.cache_clear()


def _by_column(
    function: Callable[[str], Any], kind: pa.DataType, texts: pa.ChunkedArray
) -> pa.Array:
    return pa.array([function(text or "") for text in texts.to_pylist()], kind)


def _with_reason(work: Callable[[], Any], where: str = "") -> Any:
    """Return what `work` returns. Raises InputError, with the reason, for an error of DuckDB.

    The InputError is raised outside of the `except`, so that nothing holds DuckDB's error: one that
    outlives the interpreter makes DuckDB complain at the end.
    """
    try:
        return work()
    except duckdb.Error as error:
        reason = _reason(error)
    raise InputError(f"{where}{reason}")


def _reason(error: Exception) -> str:
    """Return the first line of DuckDB's message, and its hint, without the kind of the error."""
    first, *rest = str(error).strip().splitlines()
    reason = first.partition("Error: ")[2] or first
    for line in rest:
        if line.startswith("Did you mean"):
            reason += f"; {line[0].lower()}{line[1:]}"
            break
    return reason.replace(" in FROM clause!", "")
