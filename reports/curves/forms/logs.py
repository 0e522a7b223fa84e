"""Read plain logs by a pattern of their lines, such as `step:{step}/{} val_loss:{loss}`.

The fields match numbers only: a log that holds its own source has such a line without numbers.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from dreamer_study.pipeline.errors import InputError
from dreamer_study.reports.curves.asked import Asked
from dreamer_study.reports.curves.kinds import LOSS, SCORE
from dreamer_study.reports.curves.patterns import (
    IN_STEPS,
    LINE_FIELDS,
    counted,
    expression_of,
    fields_of_files,
    lacking,
    number_of_tokens,
)
from dreamer_study.reports.curves.rows import FILE, Found, Rows

EXAMPLE = "'step:{step}/{} val_loss:{loss}'"


def rows_of_logs(folder: Path, asked: Asked) -> Rows:
    """Read the lines of every file whose path fits `--pattern`."""
    if not folder.is_dir():
        raise InputError(f"{folder}: --log is of the files in a folder, which --pattern names")
    if asked.pattern is None or "{variant}" not in asked.pattern:
        raise lacking(folder, asked.pattern, ["variant"])
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    if not files:
        raise InputError(f"{folder}: holds no file")
    fitting, notes = fields_of_files(folder, files, asked.pattern)
    found = Found([file for file, _ in fitting])
    expressions = [_line_expression(pattern) for pattern in asked.logs]
    size = asked.step_size()
    missing = 0
    for number, (_, fields) in enumerate(fitting):
        missing += _add_lines(found, number, {"seed": 0, **fields}, expressions, size)
    with_lines = {record[FILE] for record in found.records}
    silent = [file for number, (file, _) in enumerate(fitting) if number not in with_lines]
    if silent:
        raise InputError(
            f"{silent[0]}: no line fits --log {asked.logs[0]!r} ({counted(len(silent), 'file')} of"
            f" {len(fitting)} without one)"
        )
    if missing:
        notes.append(f"{counted(missing, 'line')} with NaN, which is no point")
    has_steps = any("step" in expression.groupindex for expression, _ in expressions)
    if not has_steps or size is not None:
        return found.rows(*notes)
    return found.rows(*notes, IN_STEPS, unit="steps")


def _add_lines(
    found: Found,
    number: int,
    fields: dict[str, Any],
    expressions: list[tuple[re.Pattern[str], str]],
    size: int | None,
) -> int:
    """Add the points of a log, and return how many lines have NaN for a value."""
    file = found.files[number]
    missing = 0
    for row, line in enumerate(file.read_bytes().decode(errors="replace").split("\n")):
        for expression, task in expressions:
            for match in expression.finditer(line):
                point = _point(match, f"{file}, line {row + 1}", task, size)
                if "nan" in str(point.get(LOSS, point.get(SCORE))):
                    missing += 1
                else:
                    found.add(number, row, fields | point)
    return missing


def _line_expression(pattern: str) -> tuple[re.Pattern[str], str]:
    """Return the expression of a pattern of lines, and the name of its values."""
    named = {name for name in LINE_FIELDS if name and f"{{{name}}}" in pattern}
    if len(named & {LOSS, SCORE}) != 1 or len(named & {"step", "tokens"}) != 1:
        raise InputError(
            f"--log {pattern!r}: {{loss}} or {{score}}, and {{step}} or {{tokens}}, such as"
            f" {EXAMPLE}"
        )
    before = r"(?<![A-Za-z0-9_])" if re.match(r"\w", pattern) else ""
    expression = expression_of(pattern, "--log", fields=LINE_FIELDS)
    ends_with_number = pattern.rstrip().endswith("}") and not pattern.rstrip().endswith("{}")
    after = r"(?![A-Za-z0-9_])" if ends_with_number else ""
    (kind,) = named & {LOSS, SCORE}
    label = re.search(rf"([A-Za-z][\w/.-]*)[\s:=|]*\{{{kind}\}}", pattern)
    return re.compile(before + expression + after), label[1] if label else kind


def _point(match: re.Match[str], where: str, task: str, size: int | None) -> dict[str, Any]:
    """Return the values of a line that fits."""
    texts = match.groupdict()
    point: dict[str, Any] = {"task": texts.pop("task", task)}
    if "step" in texts:
        point["tokens"] = number_of_tokens(texts.pop("step"), where) * (size or 1)
    else:
        point["tokens"] = number_of_tokens(texts.pop("tokens"), where)
    return point | {name: text.lower() for name, text in texts.items()}
