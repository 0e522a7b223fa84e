"""Tabulate the way of the documents from raw rows to packed tokens."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from dreamer_study.reports.tables.cells import Cell, Table, left, table
from dreamer_study.reports.text.names import stage_name
from dreamer_study.reports.text.numbers import number, percent, tokens


def funnel(rows: pd.DataFrame, dropped: pd.DataFrame) -> Table:
    """Tabulate what each stage kept over all sources, and what it dropped for which reason.

    `rows` are those of the view `funnel`, `dropped` those of `StudyData.dropped`.
    """
    body = []
    for row in rows.to_dict("records"):
        stage = row["stage"]
        came = row["documents"]
        kept = {
            "documents": row["kept"],
            "characters": row["characters_kept"],
            "tokens": row["tokens_kept"],
        }
        body.append((stage, [stage_name(stage), *_amounts(kept, row["share_kept"])]))
        for lost in dropped[dropped["stage"] == stage].to_dict("records"):
            head = Cell(f"− {lost['reason']}", kind="inset", scope="row")
            amounts = _amounts(lost, lost["documents"] / came if came else None)
            body.append((stage, [head, *(Cell(text, kind="quiet") for text in amounts)]))
    return table(
        "table-funnel",
        "What each stage kept, over all sources; indented, what it dropped for which reason. Shares"
        " are of the documents that came into the stage.",
        [left("Stage"), "Documents", "Share", "Characters", "Tokens"],
        body,
    )


def _amounts(amounts: Mapping[str, float], share: float | None) -> list[str]:
    return [
        number(amounts["documents"]),
        percent(share),
        tokens(amounts["characters"]),
        tokens(amounts["tokens"]),
    ]


def funnel_by_source(rows: pd.DataFrame) -> Table:
    """Tabulate what each stage kept of each source, with the reasons in words.

    `rows` are those of the view `funnel_by_source`.
    """
    body = []
    for row in rows.to_dict("records"):
        reasons = _text(row["reasons"]).replace("_", " ")
        counts = [number(row[name]) for name in ("documents", "kept", "dropped")]
        counts += [tokens(row[name]) for name in ("characters_kept", "tokens_kept")]
        cells = [str(row["source"]), stage_name(row["stage"]), *counts, Cell(reasons, kind="long")]
        body.append((row["source"], cells))
    amounts = ("Documents", "Kept", "Dropped", "Characters kept", "Tokens kept")
    columns = [left("Source"), left("Stage"), *amounts, left("Reasons")]
    return table(
        "table-funnel-sources", "Documents through the stages, source by source.", columns, body
    )


def sources(rows: pd.DataFrame) -> Table:
    """Tabulate the data sets with licences, documents and tokens (view `table_4`)."""
    body = []
    for row in rows.to_dict("records"):
        revision = _text(row["revision"])[:8]
        cells = [
            str(row["source"]),
            Cell(_text(row["repository"]), kind="left", note=revision),
            _text(row["licence"]),
            number(row["documents_read"]),
            number(row["documents"]),
            tokens(row["tokens"]),
            percent(row["share_of_tokens"]),
        ]
        body.append((None, cells))
    return table(
        "table-4",
        "The training data: each source with its repository, pinned revision and licence, the"
        " documents read, and the documents and tokens that curation kept, before weights.",
        [left("Source"), left("Repository"), left("Licence"), "Read", "Kept", "Tokens", "Share"],
        body,
    )


def _text(value: object) -> str:
    """Return a text of the results; empty for null."""
    return "" if pd.isna(value) else str(value)
