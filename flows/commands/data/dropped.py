"""`dreamer dropped`: show what curation dropped, why, and what caused it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from dreamer_study.flows.commands.tables import (
    console,
    print_csv,
    print_fields,
    print_table,
    printable,
    write_data,
)
from dreamer_study.flows.plan.data_plan import DataPlan
from dreamer_study.flows.plan.study_plan import Plan
from dreamer_study.flows.study.loading import load_study
from dreamer_study.pipeline.decontaminate.settings import GRADES
from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.storage.documents import KEPT
from dreamer_study.pipeline.storage.files import write_text_atomically
from dreamer_study.pipeline.storage.store import Output
from dreamer_study.reports.audit.page import audit_page
from dreamer_study.reports.audit.removals import read_removals
from dreamer_study.reports.text.numbers import counted

SHOWN = 400  # characters of a text
FILTERS = ("stage", "source", "reason")


def dropped(options: argparse.Namespace) -> None:
    """Show how many documents each stage dropped, and documents that fit the filters.

    The counts are by source and reason. Without --sample one document of each reason is shown.
    Raises InputError for a study without data, and where nothing was dropped by what is asked for,
    naming what was.
    """
    if options.sample is not None and options.sample < 1:
        raise InputError(f"--sample is {options.sample}: it must be at least 1")
    if options.grade not in (None, *GRADES):
        raise InputError(f"--grade is {options.grade!r}: it must be one of {', '.join(GRADES)}")
    study = load_study(options.study, root=options.root)
    data = Plan(study).data
    outputs = [output for output in [*data.counted, data.packed] if output.done]
    if not outputs:
        raise InputError(f"{study.folder}: no data yet; `{study.run_command}` prepares them")
    one_of_each = options.sample is None and options.id is None
    asked = {key: getattr(options, key) or None for key in (*FILTERS, "grade", "id")}
    removals = read_removals(
        _files(data),
        each=one_of_each,
        sample=options.sample or sys.maxsize,
        seed=options.seed,
        **asked,
    )
    counts = _counts(outputs)
    if removals.empty:
        raise InputError(f"{study.study_id}: nothing was dropped by {_not_found(asked, counts)}")
    if one_of_each:
        chosen = "one of each reason"
    elif options.id:
        chosen = f"with the id {options.id}"
    else:
        chosen = f"sampled with seed {options.seed}"

    filters = {key: asked[key] for key in FILTERS if asked[key]}
    rows = [row for row in counts if filters.items() <= row.items()]
    _show(removals, study.study_id, chosen, rows, options)


def _show(
    removals: pd.DataFrame,
    study_id: str,
    chosen: str,
    counts: Sequence[Mapping[str, Any]],
    options: argparse.Namespace,
) -> None:
    """Write the documents in the form that the command asks for; `chosen` says which they are."""
    if options.html:
        page = audit_page(removals, study_id=study_id, chosen=chosen)
        write_text_atomically(options.html, page)
        documents = counted(len(removals), "document")
        console.print(f"{documents}: {options.html.resolve()}")
    elif options.format == "csv":
        print_csv(removals)
    elif options.format == "jsonl":
        write_data(removals.to_json(orient="records", lines=True, force_ascii=False))
    else:
        console.print(f"{study_id}\n")
        print_table(pd.DataFrame(counts))
        console.print(
            f"\n{counted(len(removals), 'document')}, {chosen}; --html shows each beside its cause,"
            " differences marked"
        )
        for row in removals.astype(object).where(removals.notna(), None).to_dict("records"):
            _print_document(row)


def _not_found(asked: Mapping[str, str | None], counts: Sequence[Mapping[str, Any]]) -> str:
    """Name the filters that were given, and the values that exist."""
    given = [f"{key} {value!r}" for key, value in asked.items() if value]
    message = " and ".join(given) or "the finished stages"
    filters = [key for key in FILTERS if asked[key]]
    values = dict.fromkeys(row[key] for key in filters for row in counts)
    if values:
        message += f"; there is {', '.join(values)}"
    return message


def _files(data: DataPlan) -> dict[str, list[Path]]:
    """List the files of the stages that `read_removals` reads, as far as these have finished."""

    def of(pattern: str, *outputs: Output) -> list[Path]:
        return sorted(path for output in outputs for path in output.path.glob(pattern))

    return {
        "dropped": of("dropped/*.parquet", *data.counted, data.packed),
        "kept": of("documents/*.parquet", data.curated),
        "causes": of("documents/*.parquet", *(planned.clean for planned in data.sources)),
        "near": of("near_duplicates.parquet", data.unique),
        "matches": of("matches.parquet", data.curated),
        "items": of("items.parquet", data.items),
    }


def _counts(outputs: Sequence[Output]) -> list[dict[str, Any]]:
    """Count the documents that each stage dropped, by source and reason."""
    rows = []
    for output in outputs:
        for count in output.results["counts"]:
            if count["reason"] != KEPT:
                shown = {key: count[key] for key in ("source", "reason", "documents", "characters")}
                rows.append({"stage": output.stage, **shown})
    return rows


def _print_document(row: Mapping[str, Any]) -> None:
    verdict = "kept" if row["reason"] in GRADES else "dropped"
    console.print(
        f"\n── {row['id']} · {row['source']} · {verdict} by {row['stage']}: {row['reason']}"
    )
    fields = []
    if row["because"]:
        cause = row["because"]
        if row["score"] is not None:
            cause += f", {row['grade'] or 'similarity'} {row['score']:.2f}"
        fields.append(("because", cause))
    for name in ("question", "response", "cause_question", "cause_response"):
        text = printable(row[name] or "")
        if text:
            shown = text[:SHOWN]
            if len(text) > SHOWN:
                left = counted(len(text) - SHOWN, "character")
                shown += f" … [{left} more]"
            fields.append((name.replace("_", " "), shown))
    print_fields(fields, column=16)
