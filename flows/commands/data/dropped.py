"""`dreamer dropped`: print what curation dropped and why, with examples."""

from __future__ import annotations

import argparse
import itertools
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from flows.commands.tables import console, print_table, printable
from flows.plan import Plan
from flows.study.loading import load_study
from pipeline.errors import InputError
from pipeline.storage.documents import KEPT, read_documents
from pipeline.storage.store import Output

SHOWN = 400  # characters of a text
FILTERS = ("stage", "source", "reason")


def dropped(options: argparse.Namespace) -> None:
    """Print how many documents each stage dropped, by source and reason, and examples that fit the filters.

    Without a filter one example of each reason is shown, at most `limit`. Raises InputError for a study without data,
    and where nothing was dropped by what is asked for, naming what was.
    """
    if options.limit < 0:
        raise InputError(f"--limit is {options.limit}: it must not be negative")
    study = load_study(options.study, root=options.root)
    data = Plan(study).data
    outputs = [output for output in [*data.counted, data.packed] if output.done]
    if not outputs:
        raise InputError(f"{study.folder}: no data yet; `dreamer run {study.arguments}` prepares them")
    counts = [
        {"stage": output.stage, **{key: row[key] for key in ("source", "reason", "documents", "characters")}}
        for output in outputs
        for row in output.results["counts"]
        if row["reason"] != KEPT
    ]
    wanted = {key: value for key in FILTERS if (value := getattr(options, key))}
    chosen = [row for row in counts if _fits(row, wanted)]
    if not chosen:
        asked = " and ".join(f"{key} {value!r}" for key, value in wanted.items()) or "the stages that have finished"
        known = ", ".join(dict.fromkeys(row[key] for key in wanted for row in counts)) or "nothing"
        raise InputError(f"{study.study_id}: nothing was dropped by {asked}; there is {known}")
    console.print(f"{study.study_id}\n")
    print_table(pd.DataFrame(chosen))
    if not wanted:
        console.print("\nOne example of each reason; choose with --stage, --source, --reason and --limit:")
    examples = _examples(outputs, wanted) if wanted else _one_of_each_reason(outputs, chosen)
    for row in itertools.islice(examples, options.limit):
        _print_document(row)


def _one_of_each_reason(outputs: Sequence[Output], chosen: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Read one document for each reason, the most frequent reason first."""
    first: dict[str, Mapping[str, Any]] = {}
    for row in sorted(chosen, key=lambda row: -row["documents"]):
        first.setdefault(row["reason"], row)
    for row in first.values():
        yield from itertools.islice(_examples(outputs, {key: row[key] for key in FILTERS}), 1)


def _examples(outputs: Sequence[Output], wanted: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Read the dropped documents that fit, with the stage that dropped them."""
    for output in outputs:
        if any(_fits({"stage": output.stage, **row}, wanted) for row in output.results["counts"]):
            for batch in read_documents(output.path, kind="dropped", batch_rows=1024):
                rows = ({"stage": output.stage, **row} for row in batch.to_pylist())
                yield from (row for row in rows if _fits(row, wanted))


def _fits(row: Mapping[str, Any], wanted: Mapping[str, str]) -> bool:
    return row["reason"] != KEPT and all(row[key] == value for key, value in wanted.items())


def _print_document(row: Mapping[str, Any]) -> None:
    header = f"\n── {row['id']} · {row['source']} · dropped by {row['stage']}: {row['reason']}"
    console.print(printable(header), soft_wrap=True)
    if row["because"]:
        console.print(printable(f"because   {row['because']}"), soft_wrap=True)
    for name in ("question", "response"):
        if text := _shortened(row[name] or ""):
            console.print(f"{name:<9} {text}", soft_wrap=True)


def _shortened(text: str) -> str:
    """Shorten a text to `SHOWN` characters of its beginning and end."""
    if len(text) > SHOWN:
        half = SHOWN // 2
        text = f"{text[:half]} … [{len(text) - 2 * half:,} characters] … {text[-half:]}"
    return textwrap.indent(printable(text), " " * 10).lstrip()
