r"""Evaluate column expressions: SQL of DuckDB over the columns of one file.

    problem                                     a column; "hints/solutions" in quotes where the name is no word
    concat(Body, ' ', Question)                 texts joined; concat_ws(' ', Body, Question) leaves null ones out
    coalesce(problem, question)                 the first that is not null; names that the file lacks are left out
    list_filter(messages, lambda m: m.role = 'assistant')[-1].content        a turn, by its role
    list_extract(responses, 1).response         the first element of a list
    unnest(generations)                         every element of a list; each becomes a response of its own
    choices[answer::int + 1]                    numbers of JSON and CSV are texts; positions count from 1
    boxed(solution)                             the content of the last balanced \boxed{...} or \fbox{...}, or ''
    after(answer, '####')                       what follows the last "####" on its line, without thousands commas
    lines(hints)                                a list of texts, also where the column holds it as JSON or Python text
    option(options, correct)                    in "a ) 38 , b ) 27.675" the text of the letter in `correct`

A list that is left at the end becomes a text of one element on a line. Expressions see the columns
and nothing else: DuckDB reads and writes no file here, loads no extension, and its settings are
locked.
"""

from __future__ import annotations

import ast
import atexit
import json
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from dreamer_study.pipeline.errors import InputError

_NAME = r'(?:"[^"]+"|[A-Za-z_]\w*)'
_COALESCE = re.compile(rf"\bcoalesce\(\s*({_NAME}(?:\s*,\s*{_NAME})+)\s*\)", re.IGNORECASE)
_UNNEST = re.compile(r"\bunnest\s*\(", re.IGNORECASE)
_BY_PLACE = re.compile(
    rf"({_NAME})\s*\[\s*-?\d+\s*\]|\b(?:list|array)_extract\(\s*({_NAME})\s*,", re.IGNORECASE
)
_ROLES = {"role": "content", "from": "value"}  # the fields of a turn: who says it, and what is said
# Expressions of built-in sources and of the documentation in earlier versions, which had a small
# language of their own.
_HINTS = 'coalesce("hints/solutions", hints, solutions, solution, answer)'
FORMER = {
    "{Body} {Question}": "concat(Body, ' ', Question)",
    "{instruction}\n{input}": "concat(instruction, chr(10), input)",
    "problem | question": "coalesce(problem, question)",
    "question | Question | problem | Problem | input | prompt | text": (
        "coalesce(question, problem, input, prompt, text)"
    ),
    "correctness_math_verify | correctness_llama": (
        "unnest(correctness_math_verify)::bool or unnest(correctness_llama)::bool"
    ),
    "lines(hints/solutions | hints | solutions | solution | answer)": f"lines({_HINTS})",
    "last(hints/solutions | hints | solutions | solution | answer)": f"lines({_HINTS})[-1]",
    'after(answer, "####")': "after(answer, '####')",
    'after(output, "The answer is")': "after(output, 'The answer is')",
    "choice(choices[*], answer)": "choices[answer::int + 1]",
}
# Its places in lists, outside of texts in quotes: they counted from 0.
_FORMER_PLACE = re.compile(r"'(?:[^']|'')*'|([A-Za-z_][\w.]*)\[(\d+|\*)\]")
_BOX, _BARE = re.compile(r"\\(?:boxed|fbox)"), re.compile(r"\s+([^\s${}\\]+)")
_BRACE = re.compile(r"[{}]|\\.", re.DOTALL)  # what a backslash stands before is no brace


def as_list(text: str) -> list[str]:
    """Convert a text to a list of texts: a list as JSON or Python writes it, without its empty
    elements, or the text.

    Other text stays itself: "['a', 'b']" gives two elements, "a" one, "" none.
    """
    found: object = text
    if text.strip().startswith("["):
        for read in (json.loads, ast.literal_eval):
            try:
                found = read(text.strip())
                break
            except (ValueError, SyntaxError, RecursionError, MemoryError):
                continue  # not this notation: the text itself may be meant
    values = found if isinstance(found, list) else [text]
    return [str(value) for value in values if value not in (None, "")]


def last_boxed(text: str) -> str:
    r"""Return the content of the last \boxed{...} or \fbox{...} with balanced braces, trimmed;
    "\boxed 5" counts too.

    Example: r"so \boxed{1} or \boxed{\frac{1}{2}}" gives r"\frac{1}{2}".
    """
    marks = [*_BOX.finditer(text)]
    ends, opened = dict[int, int](), list[int]()
    # once: a model that loops writes thousands of boxes
    for brace in _BRACE.finditer(text) if marks else ():
        if brace[0] == "{":
            opened.append(brace.start())
        elif brace[0] == "}" and opened:
            ends[opened.pop()] = brace.start()
    for mark in reversed(marks):
        opening = mark.end()
        if text.startswith("{", opening):
            if opening in ends:
                return text[opening + 1 : ends[opening]].strip()
        elif bare := _BARE.match(text, opening):
            return bare[1].rstrip(".,;")
    return ""


_FUNCTIONS: dict[str, tuple[Callable[[str], Any], pa.DataType, str]] = {
    "boxed": (last_boxed, pa.string(), "VARCHAR"),
    "listed": (as_list, pa.list_(pa.string()), "VARCHAR[]"),
}
_MACROS = r"""
create macro lines(x) as listed(to_json(x) ->> '$');
create macro bare_number(x) as
    case when regexp_full_match(x, '-?\$?-?\d[\d,]*(\.\d+)?%?') then replace(replace(x, ',', ''), '$', '') else x end;
create macro after(x, mark) as
    bare_number(regexp_extract(x, '(?s).*' || regexp_escape(mark) || '\s*([^\n]*?)\s*?\.?[^\S\n]*(?:\n|$)', 1));
create macro option(options, letter) as regexp_extract(options, '(?s)(?:^|[\s,])' || lower(trim(letter))
    || ' \) ?(.*?)[\s,]*(?:[\s,]' || chr(ascii(lower(trim(letter))) + 1) || ' \) |$)', 1)
"""


def parse(text: Any) -> str:
    """Check that a text is one SQL expression, and return it.

    Raises InputError for other texts; for one in the notation of earlier versions, with its form in
    SQL.
    """
    if not isinstance(text, str):
        raise InputError(f"column expression {text!r} is no text; write one SQL expression")
    if (former := FORMER.get(text) or _FORMER_PLACE.sub(_element, text)) != text:
        first = (
            " (places count from 1: the first element is list_extract(..., 1))"
            if "list_extract(" in former
            else ""
        )
        raise InputError(
            f"column expression {text!r} is of earlier versions: write the SQL  {former}{first}"
        )
    _told(lambda: duckdb.SQLExpression(text), f"column expression {text!r} is no SQL expression: ")
    return text


def _element(found: re.Match[str]) -> str:
    """Write a place in a list as SQL does."""
    name, place = found.groups()
    if name is None:
        return found[0]
    return f"unnest({name})" if place == "*" else f"list_extract({name}, {int(place) + 1})"


def takes_elements(text: str) -> bool:
    """Tell whether an expression gives every element of a list."""
    return bool(_UNNEST.search(text))


def named_columns(texts: Iterable[str], columns: Sequence[str]) -> list[str]:
    """List the columns whose names stand in the expressions: all that DuckDB may ask for, and
    perhaps a few more."""
    whole = " ".join(texts)
    if re.search(r"\bcolumns\s*\(", whole, re.IGNORECASE):
        return list(columns)
    named = [
        name
        for name in columns
        if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", whole, re.IGNORECASE)
    ]
    return named or list(columns[:1])


def bind(text: str, schema: pa.Schema) -> str:
    """Bind an expression to the columns of a file: returns SQL that gives one text, or null, for
    each row or element.

    Raises InputError, with DuckDB's reason, for columns and functions that do not exist and for
    objects, which are no text.
    """
    there = {name.lower() for name in schema.names}

    def known(found: re.Match[str]) -> str:
        names = [name.strip() for name in found[1].split(",")]
        here = [name for name in names if name.strip('"').lower() in there]
        return f"coalesce({', '.join(here or names)})"

    text = _COALESCE.sub(known, parse(text))
    if text in schema.names and schema.field(text).type == pa.string():
        return quoted(text)

    def try_out() -> tuple[Any, Any]:
        bound = (
            _database().cursor().from_arrow(schema.empty_table()).select(duckdb.SQLExpression(text))
        )
        return bound.types, bound.fetchall()

    (kind, *more), of_all = _told(try_out, f"{text}: ")
    if of_all:
        raise InputError(f"{text}: it gives one value for all rows, where one for each is wanted")
    if more:
        raise InputError(f"{text}: {len(more) + 1} columns, where one text is wanted")
    base = kind.children[0][1] if kind.id == "list" else kind
    if base.id in ("struct", "map"):
        fields = ", ".join(name for name, _ in base.children)
        raise InputError(f"{text} is not text but has the fields {fields}; name one of them")
    return f"array_to_string(({text})::VARCHAR[], chr(10))" if kind.id == "list" else text


def check_turns(text: str, schema: pa.Schema) -> None:
    """Raise InputError for a response that takes a turn of a conversation by its place: it may be
    the user's."""
    for found in _BY_PLACE.finditer(text):
        name = (found[1] or found[2]).strip('"')
        turns = schema.field(name).type if name in schema.names else None
        fields = turns.value_type if turns and pa.types.is_list(turns) else None
        roles = [
            role
            for role in _ROLES
            if fields and pa.types.is_struct(fields) and fields.get_field_index(role) >= 0
        ]
        if roles:
            role, *_ = roles
            raise InputError(
                f"{text}: a turn that is taken by its place may be the user's; take it by its role,"
                f' list_filter({found[1] or found[2]}, lambda m: m."{role}" ='
                f" 'assistant')[-1].{_ROLES[role]}"
            )


def evaluate(bound: Sequence[str], table: pa.Table, record: str | None = None) -> pa.Table:
    """Evaluate bound expressions over a table, or over the one column `o` that the expression
    `record` gives.

    The columns of the result are named by their numbers. Raises InputError, with DuckDB's reason,
    where a value cannot be cast as an expression says.
    """
    chosen = {str(number): text for number, text in enumerate(bound)}
    # then plain columns stay as they are
    whole = record is None and not any(map(takes_elements, bound))
    names = {quoted(name): name for name in table.column_names if whole}
    plain = {number: table[names[text]] for number, text in chosen.items() if text in names}
    computed = [
        duckdb.SQLExpression(text).alias(number)
        for number, text in chosen.items()
        if number not in plain
    ]

    def compute() -> pa.Table:
        rows = _database().cursor().from_arrow(table)
        rows = rows.select(duckdb.SQLExpression(record).alias("o")) if record else rows
        return rows.select(*computed).to_arrow_table()

    found = _told(compute) if computed else table
    columns = {number: plain[number] if number in plain else found[number] for number in chosen}
    for number, column in columns.items():
        if pa.types.is_floating(column.type):  # where pandas writes NaN for a missing value
            columns[number] = pc.if_else(pc.is_nan(column), None, column)
    return pa.table(columns)


def quoted(name: str) -> str:
    """Quote a name for SQL."""
    return '"' + name.replace('"', '""') + '"'


@cache
def _database() -> duckdb.DuckDBPyConnection:
    closed = {"enable_external_access": "false", "python_enable_replacements": "false"}
    database = duckdb.connect(":memory:", config={**closed, "threads": "1"})
    for name, (function, kind, result) in _FUNCTIONS.items():
        by_column = partial(_by_column, function, kind)
        database.create_function(  # type: ignore[call-overload]  # whose types know no names of types in capitals
            name, by_column, ["VARCHAR"], result, type="arrow", null_handling="special"
        )
    database.execute(_MACROS)
    database.execute("set lock_configuration = true")
    atexit.register(_close, database)
    return database


def _close(database: duckdb.DuckDBPyConnection) -> None:
    """Close the database before the interpreter ends, which complains of functions of Python that
    outlive it."""
    for name in _FUNCTIONS:
        database.remove_function(name)
    database.close()
    _database.cache_clear()


def _by_column(
    function: Callable[[str], Any], kind: pa.DataType, texts: pa.ChunkedArray
) -> pa.Array:
    return pa.array([function(text or "") for text in texts.to_pylist()], kind)


def _told(work: Callable[[], Any], where: str = "") -> Any:
    """Return what `work` returns. Raises InputError for an error of DuckDB, and lets go of that
    error.

    One that outlives the interpreter makes DuckDB complain at the end.
    """
    try:
        return work()
    except duckdb.Error as error:
        reason = _reason(error)
    raise InputError(f"{where}{reason}")


def _reason(error: Exception) -> str:
    """Return the first line of DuckDB's message, and its hint, without the kind of the error."""
    first, *rest = str(error).strip().splitlines()
    hint = next(
        (f"; {line[0].lower()}{line[1:]}" for line in rest if line.startswith("Did you mean")), ""
    )
    return f"{first.partition('Error: ')[2] or first}{hint}".replace(" in FROM clause!", "")
