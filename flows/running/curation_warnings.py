"""Say what curation lost: a source without documents is an error, most of a source a warning."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from dreamer_study.flows.progress.reports import write_line
from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.sources.source import Source
from dreamer_study.pipeline.storage.documents import KEPT
from dreamer_study.pipeline.storage.store import Output
from dreamer_study.pipeline.traces.strip import DECLARED, NONE
from dreamer_study.reports.text.token_stream import MOST_EPOCHS


def check_kept(source: Source, outputs: Sequence[Output]) -> None:
    """Raise InputError when the stages of a source have kept no document of it.

    The error names the reason that dropped most of them.
    """
    if any(row["documents"] for row in outputs[-1].results["counts"] if row["reason"] == KEPT):
        return
    lost = Counter(
        {
            (output.stage, row["reason"]): row["documents"]
            for output in outputs
            for row in output.results["counts"]
            if row["reason"] != KEPT
        }
    )
    if lost:
        ((stage, reason), most) = lost.most_common(1)[0]
    else:
        stage = "documents"
        reason = "no rows"
        most = 0
    raise InputError(
        f"source {source.name!r}: none of its {lost.total():,} documents is kept; stage {stage!r}"
        f" dropped {most:,} as {reason!r}: compare its columns, filters and `trace` with its"
        " rows, or remove the source"
    )


def counted(output: Output) -> list[str]:
    """List, a line each, what a stage kept of each source, and what it dropped for which reason."""
    lines = []
    for row in document_counts(output):
        what = "kept" if row["reason"] == KEPT else f"dropped as {row['reason']}"
        lines.append(f"source {row['source']}: {row['documents']:,} documents {what}")
    return lines


def document_counts(output: Output) -> list[dict[str, Any]]:
    """List the rows {source, reason, documents, ...} of a stage that looks at documents."""
    return [row for row in output.results.get("counts", ()) if "documents" in row]


def stage_warnings(output: Output) -> list[str]:
    """List all warnings about one stage, a line each."""
    unmarked = unmarked_warnings(output) if output.stage == "traces" else []
    return [*warnings([output]), *unmarked]


def object_warnings(output: Output) -> list[str]:
    """Say, if so, that documents held pictures or other parts that are no text."""
    objects = output.results.get("objects", 0)
    if not objects:
        return []
    name = output.configuration["source"]["name"]
    return [
        f"source {name!r}: {objects:,} documents held a picture or another part that is no text:"
        " only their text is kept"
    ]


def warnings(outputs: Sequence[Output]) -> list[str]:
    """List, a line each, what stages lost: more than half of a source for one reason, pictures."""
    lines = []
    for output in outputs:
        lines += object_warnings(output)
        counts = document_counts(output)
        read: Counter[str] = Counter()  # documents of each source, kept or dropped
        for row in counts:
            read[row["source"]] += row["documents"]
        lines += [
            f"{output.stage} dropped {row['documents']:,} of the {read[row['source']]:,} documents"
            f" of source {row['source']!r} as {row['reason']!r}"
            for row in counts
            if row["reason"] != KEPT and 2 * row["documents"] > read[row["source"]]
        ]
    return lines


def repetition(tokens: int, packed: float) -> list[str]:
    """Say, if so, that a training of so many tokens reads its packed data too often."""
    times = tokens / max(packed, 1)
    if times <= MOST_EPOCHS:
        return []
    return [
        f"training reads its data {times:,.1f} times over; beyond some {MOST_EPOCHS} times,"
        " language models were found to learn nothing more: add data, or take fewer"
        " training.tokens"
    ]


def unmarked(stripped: Output) -> dict[str, int]:
    """Count the responses of declared traces that were kept without any mark, by source."""
    if stripped.configuration["marking"] not in (*DECLARED, "unmarked"):
        return {}
    return {
        row["source"]: row["documents"] for row in stripped.results["traces"] if row["kind"] == NONE
    }


def unmarked_warnings(stripped: Output) -> list[str]:
    """List, a line each, the sources with declared traces where some responses have no mark.

    Such responses stay whole.
    """
    marking = stripped.configuration["marking"]
    if marking not in DECLARED:
        return []
    return [
        f"source {name!r}: {count:,} responses have no trace, though `trace` is {marking!r}; they"
        " stay"
        for name, count in unmarked(stripped).items()
    ]


def say(lines: Sequence[str]) -> None:
    """Write warnings to standard error, a line each."""
    for line in lines:
        write_line(f"WARNING: {line}")
