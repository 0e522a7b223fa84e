r"""Parse and evaluate column expressions: the small language in which sources and benchmarks name their columns.

    problem                        a column
    conversations[1].value         a path: list elements by position (negative: from the end), fields by name
    generations[*]                 every element of a list; each becomes a response of its own
    problem | question             the first of these columns that the file has
    {Body} {Question}              a template: columns in braces, the rest as it stands
    [Body, Question]               (a list) the columns joined by a space, empty ones left out
    boxed(solution)                the content of the last balanced \boxed{...} or \fbox{...}; empty without one
    after(answer, "####")          what follows the last "####" on its line, without thousands commas and a full stop
    lines(hints/solutions)         a list of texts, or a text that holds one as JSON or Python literal, line by line
    last(hints/solutions)          the last element of such a list
    choice(choices, answer)        the element of the list `choices` at the position in `answer`
    option(options, correct)       in "a ) 38 , b ) 27.675" the text of the letter in `correct`

An expression is parsed once, bound to the columns that a file has, and evaluated on Arrow tables whose columns are
paths, as `pipeline.sources.files.readers` extracts them.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.errors import InputError, nearest_name
from pipeline.sources.columns.paths import steps

_PLACE = re.compile(r"\{([^{}]+)\}")
_CALL = re.compile(r"(\w+)\((.*)\)", re.DOTALL)
_BRACE = re.compile(r"[{}]")
_NUMBER = re.compile(r"-?\$?-?\d[\d,]*(\.\d+)?%?")
_OPTION = re.compile(r"(?:^|[\s,])([a-z]) \) ?")


class MissingColumn(Exception):
    """Raised for a file without the columns that an expression names; `wanted` are the paths that were tried."""

    def __init__(self, wanted: str) -> None:
        super().__init__(wanted)
        self.wanted = wanted


@dataclass(frozen=True)
class Expression:
    """A parsed column expression: parts of fixed text (`str`) and columns (`tuple` of alternative paths).

    `function` names a function of the language, whose arguments are the columns; `joined` marks a list.
    """

    parts: tuple[str | tuple[str, ...], ...]
    function: str = ""
    mark: str = ""
    joined: bool = False

    def bind(self, has: Callable[[str], bool]) -> Expression:
        """Choose one path for each column: the first alternative that `has` accepts. Raises MissingColumn."""

        def chosen(paths: tuple[str, ...]) -> tuple[str]:
            found = next((path for path in paths if has(path)), None)
            if found is None:
                raise MissingColumn(" | ".join(paths))
            return (found,)

        return replace(self, parts=tuple(part if isinstance(part, str) else chosen(part) for part in self.parts))

    def paths(self) -> list[str]:
        """List the paths of the columns, in order; a reader extracts those of a bound expression."""
        return [path for part in self.parts if not isinstance(part, str) for path in part]

    def evaluate(self, table: pa.Table) -> pa.ChunkedArray | pa.Array:
        """Compute a text for each row of a table whose columns are the paths of this bound expression.

        A text is null only where the expression is a plain column and the column is null.
        """
        if self.function:
            function, marks = _FUNCTIONS[self.function][1], (self.mark,) if self.mark else ()
            values = zip(*(table[path].to_pylist() for path in self.paths()), strict=True)
            return pa.array([function(*row, *marks) for row in values], pa.string())
        columns = [part if isinstance(part, str) else _text(table[part[0]]) for part in self.parts]
        if len(columns) == 1 and not isinstance(columns[0], str):
            return columns[0]
        filled = [column if isinstance(column, str) else pc.fill_null(column, "") for column in columns]
        if self.joined:
            present = [pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column) for column in filled]
            return pc.binary_join_element_wise(*present, " ", null_handling="skip")
        return pc.binary_join_element_wise(*filled, "")


def parse(text: str | Sequence[str]) -> Expression:
    """Parse an expression. Raises InputError, with the reason, for a text that is none."""
    if isinstance(text, str):
        return _parse_text(text)
    if not text or not all(isinstance(part, str) for part in text):
        raise InputError(f"column expression {text!r} is not a text or a list of texts; write a column name")
    return Expression(tuple(_alternatives(part) for part in text), joined=True)


def _parse_text(text: str) -> Expression:
    call = _CALL.fullmatch(text.strip())
    if call and call[1] in _FUNCTIONS:
        return _parse_call(text, call[1], call[2])
    if call and re.fullmatch(r"[^\s/]+", call[1]) and (near := nearest_name(call[1], _FUNCTIONS)):
        raise InputError(f"column expression {text!r}: no function {call[1]!r}; did you mean {near!r}?")
    if "{" in text or "}" in text:
        parts: list[str | tuple[str, ...]] = []
        end = 0
        for place in _PLACE.finditer(text):
            parts += [text[end : place.start()], _alternatives(place[1])]
            end = place.end()
        parts.append(text[end:])
        if any(isinstance(part, str) and _BRACE.search(part) for part in parts):
            raise InputError(f"column expression {text!r} has a brace without its partner")
        return Expression(tuple(part for part in parts if part))
    return Expression((_alternatives(text),))


def _parse_call(text: str, function: str, inner: str) -> Expression:
    mark = ""
    if function == "after":
        inner, _, quoted = inner.partition(",")
        if not re.fullmatch(r"""\s*("[^"]+"|'[^']+')\s*""", quoted):
            raise InputError(f'column expression {text!r}: write after(column, "mark") with the mark in quotes')
        mark = quoted.strip()[1:-1]
    arguments = tuple(_alternatives(part) for part in inner.split(","))
    wanted = _FUNCTIONS[function][0]
    if len(arguments) != wanted:
        raise InputError(f"column expression {text!r}: {function} takes {wanted} column(s), not {len(arguments)}")
    return Expression(arguments, function, mark)


def _alternatives(text: str) -> tuple[str, ...]:
    paths = tuple(path.strip() for path in text.split("|"))
    for path in paths:
        steps(path)
    return paths


# --------------------------------------------------------------------------------------------- values as text


def as_text(value: object) -> str | None:
    """Convert a JSON or CSV value to text: numbers without ".0" at the end, lists by line; objects become None."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value).removesuffix(".0")
    if isinstance(value, list):
        parts = [as_text(part) for part in value]
        return "\n".join(part for part in parts if part is not None)
    return None if isinstance(value, dict) else str(value)


def _text(column: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    if pa.types.is_list(column.type):
        return pa.array([as_text(value) for value in column.to_pylist()], pa.string())
    return column


def as_list(value: object) -> list[str]:
    """Convert a value to a list of texts: a list, a text that holds a list as JSON or Python literal, or one text."""
    if isinstance(value, str) and value.strip().startswith("["):
        for read in (json.loads, ast.literal_eval):
            try:
                found = read(value.strip())
            except (ValueError, SyntaxError, RecursionError, MemoryError):
                continue  # not this notation: the text itself may be meant
            if isinstance(found, list):
                value = found
                break
    values = value if isinstance(value, list) else [value]
    return [text for text in map(as_text, values) if text]


def last_boxed(text: str) -> str:
    r"""Return the content of the last \boxed{...} or \fbox{...} with balanced braces, trimmed; "\boxed 5" counts too.

    Example: r"so \boxed{1} or \boxed{\frac{1}{2}}" gives r"\frac{1}{2}".
    """
    end = len(text)
    while (start := max(text.rfind("\\boxed", 0, end), text.rfind("\\fbox", 0, end))) >= 0:
        opening = start + (6 if text.startswith("\\boxed", start) else 5)
        depth = 0
        if text.startswith("{", opening):
            for brace in _BRACE.finditer(text, opening):
                if _escaped(text, brace.start()):
                    continue
                depth += 1 if brace[0] == "{" else -1
                if depth == 0:
                    return text[opening + 1 : brace.start()].strip()
        elif bare := re.compile(r"\s+([^\s${}\\]+)").match(text, opening):
            return bare[1].rstrip(".,;")
        end = start
    return ""


def _escaped(text: str, position: int) -> bool:
    start = position
    while start and text[start - 1] == "\\":
        start -= 1
    return (position - start) % 2 == 1


def after(text: str, mark: str) -> str:
    """Return what follows the last `mark` on its line, without a full stop at the end and a number's commas and "$"."""
    _, found, rest = text.rpartition(mark)
    if not found:
        return ""
    rest = rest.strip().partition("\n")[0].strip().removesuffix(".")
    return rest.replace(",", "").replace("$", "") if _NUMBER.fullmatch(rest) else rest


def option(options: str, letter: str) -> str:
    """Return the text of one lettered option, up to the mark of the next letter: an option may contain ", "."""
    marks = []
    for mark in _OPTION.finditer(options):
        if ord(mark[1]) - ord("a") == len(marks):
            marks.append(mark)
    index = ord(letter.strip().lower()[:1] or "?") - ord("a")
    if not 0 <= index < len(marks):
        return ""
    end = marks[index + 1].start() if index + 1 < len(marks) else len(options)
    return options[marks[index].end() : end].strip(" ,")


def choice(options: list | None, index: str) -> str:
    """Return the element of a list at the position `index`, as text; empty where there is none."""
    known = options is not None and index.isdigit() and int(index) < len(options)
    return (as_text(options[int(index)]) or "") if known else ""


# Number of columns, and the function of their values and, for "after", the mark.
_FUNCTIONS: dict[str, tuple[int, Callable[..., str]]] = {
    "boxed": (1, lambda value: last_boxed(as_text(value) or "")),
    "after": (1, lambda value, mark: after(as_text(value) or "", mark)),
    "lines": (1, lambda value: "\n".join(as_list(value))),
    "last": (1, lambda value: (as_list(value) or [""])[-1]),
    "choice": (2, lambda options, index: choice(options, str(index))),
    "option": (2, lambda options, letter: option(options or "", letter or "")),
}
