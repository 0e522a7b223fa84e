"""`dreamer dropped`: what curation dropped and why, with examples."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import pandas as pd

from flows.commands.show import console, print_table
from flows.stages.outputs import recall
from flows.study.configuration import Study
from pipeline.errors import InputError
from pipeline.storage.documents import KEPT, read_documents
from pipeline.storage.store import Output

SHOWN = 400  # characters of a text


def print_dropped(
    study: Study, *, stage: str | None = None, source: str | None = None, reason: str | None = None, limit: int = 5
) -> None:
    """How many documents each stage dropped, by source and reason, and examples of those that were asked for.

    Without a filter one example of each reason is shown, as far as `limit` goes. Raises InputError for a study without
    data, and for a stage, source or reason that dropped nothing, naming those that did.
    """
    if limit < 0:
        raise InputError(f"--limit is {limit}: it must not be negative")
    study_id, outputs = recall(study)
    outputs = [output for output in outputs if "counts" in output.results]
    counts = [
        {"stage": output.stage, **{key: row[key] for key in ("source", "reason", "documents", "characters")}}
        for output in outputs
        for row in output.results["counts"]
        if row["reason"] != KEPT
    ]
    wanted = {key: value for key, value in (("stage", stage), ("source", source), ("reason", reason)) if value}
    for key, value in wanted.items():
        _check(key, value, [row[key] for row in counts])
    chosen = [row for row in counts if _fits(row, wanted)]
    if not chosen:
        said = " and ".join(f"{key} {value!r}" for key, value in wanted.items())
        near = _known([f"{r['stage']} / {r['source']} / {r['reason']}" for r in counts if _fits_any(r, wanted)])
        raise InputError(f"nothing was dropped by {said} together; there is {near}" if wanted else _nothing(study_id))
    console.print(f"{study_id}\n")
    print_table(pd.DataFrame(chosen))
    if not wanted:
        console.print("\nOne example of each reason; choose with --stage, --source, --reason and --limit:")
    taken = _each_once(outputs, chosen) if not wanted else _examples(outputs, wanted, limit)
    for number, row in enumerate(taken):
        if number == limit:
            break
        _print_document(row)


def _each_once(outputs: Sequence[Output], chosen: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    seen: dict[str, None] = {}
    for row in sorted(chosen, key=lambda row: -row["documents"]):
        if row["reason"] not in seen:
            seen[row["reason"]] = None
            yield from _examples(outputs, {key: row[key] for key in ("stage", "source", "reason")}, 1)


def _examples(outputs: Sequence[Output], wanted: Mapping[str, str], limit: int) -> Iterator[dict[str, Any]]:
    """Up to `limit` dropped documents that fit, with the stage that dropped them."""
    for output in outputs:
        if not any(_fits({"stage": output.stage, **row}, wanted) for row in output.results["counts"]):
            continue
        for batch in read_documents(output.path, kind="dropped", batch_rows=1024):
            for row in batch.to_pylist():
                if limit and _fits({"stage": output.stage, **row}, wanted):
                    limit -= 1
                    yield {"stage": output.stage, **row}
            if not limit:
                return


def _fits(row: Mapping[str, Any], wanted: Mapping[str, str]) -> bool:
    return row["reason"] != KEPT and all(row[key] == value for key, value in wanted.items())


def _fits_any(row: Mapping[str, Any], wanted: Mapping[str, str]) -> bool:
    return any(row[key] == value for key, value in wanted.items())


def _check(key: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        near = get_close_matches(value, known, 1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise InputError(f"no document was dropped by {key} {value!r}; {hint}There is {_known(known)}")


def _known(names: Sequence[str]) -> str:
    return ", ".join(dict.fromkeys(names)) or "none"


def _nothing(study_id: str) -> str:
    return f"{study_id}: the stages that have finished dropped nothing"


def _print_document(row: Mapping[str, Any]) -> None:
    header = f"\n── {row['id']} · {row['source']} · dropped by {row['stage']}: {row['reason']}"
    console.print(header, soft_wrap=True)
    if row["because"]:
        console.print(f"because   {row['because']}", soft_wrap=True)
    for name in ("question", "response"):
        if text := _shortened(row[name] or ""):
            console.print(f"{name:<9} {text}", soft_wrap=True)


def _shortened(text: str) -> str:
    """The text for a terminal: at most `SHOWN` characters of its beginning and end, control characters escaped."""
    if len(text) > SHOWN:
        half = SHOWN // 2
        text = f"{text[:half]} … [{len(text) - 2 * half:,} characters] … {text[-half:]}"
    text = "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)
    return textwrap.indent(text, " " * 10).lstrip()
