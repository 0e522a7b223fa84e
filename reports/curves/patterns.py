"""Patterns such as `{variant}/seed{seed}/{tokens}` of paths, of names of runs and of log lines."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dreamer_study.pipeline.errors import InputError

NUMBER = r"[-+]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?(?:nan|inf(?:inity)?)"
FIELDS = {
    "variant": r"[^/]+",
    "seed": r"\d+",
    "tokens": r"\d+(?:\.\d+)?[kKMBT]?",
    "step": r"\d+",
    "task": r".+?",
}
LINE_FIELDS = {
    "step": r"\d[\d,_]*",
    "tokens": r"\d[\d,_]*(?:\.\d+)?(?:[eE][-+]?\d+)?[kKMBT]?",
    "loss": NUMBER,
    "score": NUMBER,
    "task": r"\S+?",
    "": r".*?",
}
UNITS = {"k": 10**3, "K": 10**3, "M": 10**6, "B": 10**9, "T": 10**12}
# A name of a run with its seed at the end: base-s0, loop_seed1.
RUN_WITH_SEED = re.compile(
    r"(?P<variant>.+?)[-_ ./]*(?:(?<![a-z])s|seed)[-_= ]*(?P<seed>\d+)", re.I
)
# Where nothing says how many tokens a step has.
IN_STEPS = "the ratio is in steps, not in tokens: --tokens-per-step N says how many a step has"
EXAMPLE = "'{variant}/seed{seed}/{tokens}'"


def expression_of(pattern: str, option: str, *, fields: dict[str, str] = FIELDS) -> str:
    """Return the regular expression of a pattern, whose wildcards are `*`, `**` and `?`.

    A field that stands twice has one value in both places. Raises InputError for another field.
    """
    is_line = fields is LINE_FIELDS
    if not is_line and pattern.count("{") != pattern.count("}"):
        raise InputError(f"{option} {pattern!r}: a brace is opened and not closed, or the reverse")
    expression = ""
    seen: set[str] = set()
    for literal, name in re.findall(r"([^{]*)(?:\{([^{}]*)\})?", pattern):
        expression += _literal(literal, after=expression, is_line=is_line)
        if "{" + name + "}" not in pattern:
            continue
        if name not in fields:
            known = ", ".join("{" + field + "}" for field in fields)
            raise InputError(f"{option} {pattern!r}: no field {{{name}}}; the fields are {known}")
        if not name:
            expression += fields[name]
        else:
            expression += f"(?P={name})" if name in seen else f"(?P<{name}>{fields[name]})"
        seen.add(name)
    return expression


def _literal(text: str, *, after: str, is_line: bool) -> str:
    """Return the expression of what stands between fields."""
    if is_line:
        return re.sub(r"(?:\\? )+", r"\\s+", re.escape(text))
    if "(?P<tokens>" in after and after.endswith(FIELDS["tokens"] + ")"):
        text = re.sub(r"^[kKMBT](?![A-Za-z0-9])", "", text)  # the unit is part of the field
    parts = re.split(r"(\*\*|\*|\?)", text)
    wildcards = {"**": ".*", "*": "[^/]*", "?": "[^/]"}
    return "".join(wildcards.get(part, re.escape(part)) for part in parts)


def number_of_tokens(text: str, where: str) -> int:
    """Read `200000000`, `0.5B` or `1e9`; raise InputError where that is no whole number."""
    digits = text.rstrip("kKMBT")
    unit = UNITS.get(text[len(digits) :], 1)
    tokens = float(digits.replace(",", "").replace("_", "")) * unit
    if abs(tokens - round(tokens)) > 1e-6 * tokens:
        raise InputError(f"{where}: {text} is no whole number of tokens")
    return round(tokens)


def values_of(match: re.Match[str], where: str) -> dict[str, Any]:
    """Return the fields of a matched path or name with their types."""
    values: dict[str, Any] = {}
    for name, text in match.groupdict().items():
        if name == "tokens":
            values[name] = number_of_tokens(text, where)
        elif name in ("seed", "step"):
            values[name] = int(text)
        else:
            values[name] = text
    return values


def fields_of_files(
    folder: Path, files: Iterable[Path], pattern: str | None
) -> tuple[list[tuple[Path, dict[str, Any]]], list[str]]:
    """Return the files whose path a pattern begins, each with its fields, and lines to print.

    Without a pattern every file fits, and has no fields. Raises InputError where no file fits.
    """
    files = list(files)
    if pattern is None:
        return [(file, {}) for file in files], []
    after = "" if pattern.endswith("/") else "(?![A-Za-z0-9])"
    expression = re.compile(expression_of(pattern, "--pattern") + after)
    fitting = []
    others = []
    for file in files:
        match = expression.match(file.relative_to(folder).as_posix())
        if match:
            fitting.append((file, values_of(match, str(file))))
        else:
            others.append(file)
    if not fitting:
        raise InputError(
            f"{files[0]}: --pattern {pattern!r} does not fit its path, nor that of another file"
            f" ({counted(len(files), 'file')} below {folder})"
        )
    if not others:
        return fitting, []
    verb = "is" if len(others) == 1 else "are"
    left_out = (
        f"{counted(len(others), 'file')} that --pattern does not fit {verb} left out:"
        f" {listed([str(file.relative_to(folder)) for file in others], 3)}"
    )
    return fitting, [left_out]


def fields_of_run(name: str, pattern: str | None) -> dict[str, Any]:
    """Return variant and seed of a run by its name; the whole name is the variant else."""
    if pattern is not None:
        match = re.fullmatch(expression_of(pattern, "--pattern"), name)
        if not match:
            raise InputError(f"run {name!r}: --pattern {pattern!r} does not fit its name")
        return {"seed": 0, **values_of(match, f"run {name!r}")}
    guessed = RUN_WITH_SEED.fullmatch(name)
    if guessed:
        return {"variant": guessed["variant"], "seed": int(guessed["seed"])}
    return {"variant": name, "seed": 0}


def lacking(folder: Path, pattern: str | None, names: Sequence[str]) -> InputError:
    """Return the error of a folder whose paths do not say what its files lack."""
    if pattern is None:
        return InputError(f"{folder}: the folder needs --pattern, such as {EXAMPLE}")
    return InputError(f"--pattern {pattern!r} lacks {' or '.join(f'{{{name}}}' for name in names)}")


def counted(number: int, noun: str) -> str:
    """Write a number with its noun: `1 file`, `2 files`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def listed(names: Sequence[str], most: int = 10) -> str:
    """Write the first names, and how many there are beside them."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most:,} more"


def tasks_left_out(
    tasks: Mapping[str, Iterable[str]], taken: Collection[str], metric: str | None
) -> list[str]:
    """Name every task of which no metric is taken, with the metrics that the task has."""
    left_out = []
    for task, metrics in tasks.items():
        if task not in taken:
            has = listed([*metrics], 5)
            left_out.append(f"{task} ({has})" if has else task)
    if not left_out:
        return []
    why = f"--metric {metric} is none of theirs" if metric else "no metric of theirs is known"
    return [f"! {counted(len(left_out), 'task')} left out, as {why}: {', '.join(left_out)}"]
