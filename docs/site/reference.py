"""Write the pages of the reference from the code: options, keys, tables and names in Python."""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dreamer_study
from dreamer_study.flows.commands.parser import GROUPS, parser
from dreamer_study.flows.study.schema import study_schema
from dreamer_study.sql.results import connect

WIDTH = 90  # columns of a help text
OF_ANOTHER = ("lm-eval",)  # whose help is another program's
COLUMNS = """
    select table_name, column_name, data_type, comment
    from duckdb_columns()
    where schema_name = 'main' and not internal
    order by table_name, column_index
"""
TABLES = """
    select table_name, 'table', comment
    from duckdb_tables()
    where schema_name = 'main' and not internal
    union all
    select view_name, 'view', comment
    from duckdb_views()
    where schema_name = 'main' and not internal
    order by 1
"""
MACROS = """
    select function_name, parameters, comment
    from duckdb_functions()
    where schema_name = 'main' and not internal and function_type = 'table_macro'
    order by function_name
"""


def reference_pages() -> dict[str, str]:
    """Return the text of each page, by its name."""
    pages = {
        "reference/options.md": options(),
        "reference/study-file.md": study_file(),
        "reference/tables.md": tables(),
    }
    if hasattr(dreamer_study, "__all__"):
        pages["reference/python.md"] = python_names()
    return pages


# --- the command ---


def options() -> str:
    """Write the help of every command."""
    lines = ["# Every option of the command", "", "What `dreamer COMMAND --help` prints.", ""]
    for group, names in GROUPS.items():
        lines += [f"## {group.capitalize()}", ""]
        for name in names:
            if name not in OF_ANOTHER:
                lines += [f"### dreamer {name}", "", "```text", help_of(name), "```", ""]
    return "\n".join(lines)


def help_of(command: str) -> str:
    """Return what a command's --help prints."""
    printed = io.StringIO()
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = str(WIDTH)
    try:
        with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
            parser().parse_args([command, "--help"])
    finally:
        del os.environ["COLUMNS"]
        if before is not None:
            os.environ["COLUMNS"] = before
    return printed.getvalue().strip()


# --- the study file ---


def study_file() -> str:
    """Write a table of the keys of each section."""
    schema = study_schema()
    lines = [
        "# Every key of a study file",
        "",
        "A study is a YAML file. A key that you leave out has its default. A misspelt key is an"
        " error that names the nearest right one.",
        "",
    ]
    done: set[str] = set()
    waiting = [("", schema)]
    while waiting:
        where, kind = waiting.pop(0)
        lines += [f"## {where or 'The study'}", "", first_line(kind), ""]
        lines += ["| key | type | default | what it says |", "|---|---|---|---|"]
        required = kind.get("required", [])
        for key, field in kind["properties"].items():
            default = "required" if key in required else shown(field)
            lines.append(
                f"| `{key}` | {cell(type_of(field))} | {default} | {cell(field['description'])} |"
            )
        lines.append("")
        for key, field in kind["properties"].items():
            for name in sections_of(field):
                if name not in done:
                    done.add(name)
                    path = f"{where}.{key}".lstrip(".")
                    waiting.append((path, schema["$defs"][name]))
    return "\n".join(lines)


def first_line(kind: dict[str, Any]) -> str:
    """Return the first sentence that describes a section."""
    return kind.get("description", "").partition("\n")[0]


def sections_of(field: Any) -> Iterator[str]:
    """Name the sections that a field refers to, wherever in it."""
    if isinstance(field, dict):
        if "$ref" in field:
            yield field["$ref"].rpartition("/")[2]
        for inner in field.values():
            yield from sections_of(inner)
    elif isinstance(field, list):
        for inner in field:
            yield from sections_of(inner)


def type_of(field: dict[str, Any]) -> str:
    """Say which values a field takes."""
    if "$ref" in field:
        return "section"
    if "const" in field:
        return json.dumps(field["const"])
    if "enum" in field:
        names = [str(name) for name in field["enum"]]
        return "one of " + ", ".join(names) if len(names) <= 8 else "a name"
    if "anyOf" in field:
        kinds = dict.fromkeys(type_of(inner) for inner in field["anyOf"])
        return " or ".join(kinds)
    if field.get("type") == "array":
        inner = field.get("items", {})
        return f"list of {type_of(inner)}" if inner else "list"
    names = {"string": "text", "object": "mapping", "boolean": "true or false"}
    kind = names.get(field.get("type", ""), field.get("type", "any"))
    return kind + bounds_of(field)


def bounds_of(field: dict[str, Any]) -> str:
    """Say which numbers a field takes; huge bounds are those of the computer."""
    words = {
        "minimum": "at least",
        "exclusiveMinimum": "above",
        "maximum": "at most",
        "exclusiveMaximum": "below",
    }
    bounds = [
        f"{word} {field[name]:g}"
        for name, word in words.items()
        if name in field and abs(field[name]) < 2**31 - 1
    ]
    return f" {' and '.join(bounds)}" if bounds else ""


def shown(field: dict[str, Any]) -> str:
    """Show the default of a field; that of a section is the defaults of its keys."""
    default = field.get("default")
    if "$ref" in field or isinstance(default, dict) or "default" not in field:
        return ""
    if isinstance(default, list) and any(isinstance(entry, dict) for entry in default):
        default = [entry.get("name", entry) for entry in default]
    if isinstance(default, list):
        return cell(f"`[{', '.join(map(str, default))}]`")
    return f"`{json.dumps(default)}`"


def cell(text: str) -> str:
    """Make a text fit for a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


# --- the results ---


def tables() -> str:
    """Write the tables, views and macros of a results file with the comments on their columns."""
    with tempfile.TemporaryDirectory() as folder:
        connection = connect(Path(folder) / "results.duckdb")
        relations = connection.execute(TABLES).fetchall()
        columns = connection.execute(COLUMNS).fetchall()
        macros = connection.execute(MACROS).fetchall()
        connection.close()
    lines = [
        "# Every table and view",
        "",
        "`results.duckdb` holds these in its schema `main`. A row of each is what its first line"
        " says.",
        "",
    ]
    for name, kind, comment in relations:
        lines += [f"## {name}", "", f"A {kind}. One row is {cell(comment)}", ""]
        lines += ["| column | type | what it is |", "|---|---|---|"]
        for table, column, of, said in columns:
            if table == name:
                lines.append(f"| `{column}` | {of.lower()} | {cell(said or '')} |")
        lines.append("")
    lines += ["## Macros", "", "Views that take arguments: `FROM tokens_to('average', 0.6)`.", ""]
    lines += ["| macro | one row is |", "|---|---|"]
    for name, parameters, comment in macros:
        lines.append(f"| `{name}({', '.join(parameters)})` | {cell(comment)} |")
    return "\n".join([*lines, ""])


# --- Python ---


def python_names() -> str:
    """Write the public names of `import dreamer_study` with their signatures and docstrings."""
    lines = ["# Every public name in Python", "", "`import dreamer_study` has these names.", ""]
    for name in dreamer_study.__all__:
        value = getattr(dreamer_study, name)
        lines += [f"## {name}", "", *signature(name, value), documentation(value), ""]
        if inspect.isclass(value):
            lines += members(value)
    return "\n".join(lines)


def members(kind: type) -> Iterator[str]:
    """Yield the public methods and properties that a class itself defines."""
    for name, value in vars(kind).items():
        is_method = inspect.isfunction(value)
        if name.startswith("_") or not (is_method or isinstance(value, property)):
            continue
        yield f"### {kind.__name__}.{name}"
        yield ""
        if is_method:
            yield from signature(f"{kind.__name__}.{name}", value)
        yield documentation(value)
        yield ""


def signature(name: str, value: Any) -> list[str]:
    """Write how a function is called; nothing where Python does not know."""
    if not callable(value) or (inspect.isclass(value) and issubclass(value, Exception)):
        return []
    try:
        written = inspect.signature(value)
    except (TypeError, ValueError):
        return []
    text = f"{name}{written}"
    if len(text) > WIDTH:
        inner = ",\n    ".join(map(str, written.parameters.values()))
        text = f"{name}(\n    {inner},\n)"
    return ["```python", text, "```", ""]


def documentation(value: Any) -> str:
    """Return the docstring as Markdown: angle brackets outside of code are no HTML."""
    text = inspect.getdoc(value) or ""
    parts = re.split(r"(`[^`]*`|^    .*$)", text, flags=re.MULTILINE)
    parts[::2] = [part.replace("<", "&lt;") for part in parts[::2]]
    return "".join(parts)
