"""Say what curation lost: a source without documents is an error, most of a source a warning."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from dreamer_study.flows.progress.reports import WARNS, write_line
from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.sources.source import Source
from dreamer_study.pipeline.storage.documents import KEPT
from dreamer_study.pipeline.storage.store import Output
from dreamer_study.pipeline.traces.examined import DECLARED, NONE
from dreamer_study.reports.text.numbers import counted
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
    documents = counted(lost.total(), "document")
    raise InputError(
        f"source {source.name!r}: none of its {documents} is kept; stage {stage!r}"
        f" dropped {most:,} as {reason!r}: compare its columns, filters and `trace` with its"
        " rows, or remove the source"
    )


def kept_and_dropped(output: Output) -> list[str]:
    """List the documents of each source that a stage kept, and dropped for each reason."""
    lines = []
    for row in document_counts(output):
        what = "kept" if row["reason"] == KEPT else f"dropped as {row['reason']}"
        lines.append(f"source {row['source']}: {counted(row['documents'], 'document')} {what}")
    return lines


def document_counts(output: Output) -> list[dict[str, Any]]:
    """List the rows {source, reason, documents, ...} of a stage that looks at documents."""
    return [row for row in output.results.get("counts", ()) if "documents" in row]


def stage_warnings(output: Output) -> list[str]:
    """List all warnings about one stage."""
    of_traces = trace_warnings(output) if output.stage == "traces" else []
    return [*warnings([output]), *of_traces]


def trace_warnings(stripped: Output) -> list[str]:
    """Warn of kept responses that may hold reasoning."""
    return [*unmarked_warnings(stripped), *left_warnings(stripped)]


def object_warnings(output: Output) -> list[str]:
    """Warn where documents held pictures or other parts that are no text."""
    objects = output.results.get("objects", 0)
    if not objects:
        return []
    name = output.configuration["source"]["name"]
    return [
        f"source {name!r}: {counted(objects, 'document')} held a picture or another part that is"
        " no text: only their text is kept"
    ]


def warnings(outputs: Sequence[Output]) -> list[str]:
    """Warn of sources that lost much in a stage.

    That is a picture beside a text, a reason for which a stage dropped more than half of a source,
    and a document for which deduplication dropped a tenth of a source, or more than a hundred
    documents.
    """
    lines = []
    for output in outputs:
        lines += object_warnings(output)
        counts = document_counts(output)
        read: Counter[str] = Counter()  # documents of each source, kept or dropped
        for row in counts:
            read[row["source"]] += row["documents"]
        lines += [
            f"{output.stage} dropped {row['documents']:,} of the"
            f" {counted(read[row['source']], 'document')} of source {row['source']!r} as"
            f" {row['reason']!r}"
            for row in counts
            if row["reason"] != KEPT and 2 * row["documents"] > read[row["source"]]
        ]
        lines += [
            f"{output.stage} dropped {cluster['dropped']:,} of the"
            f" {counted(cluster['of'], 'document')} of a source as near duplicates of"
            f" {cluster['because']!r} alone, one of them {cluster['example']!r} (`dreamer dropped"
            f" STUDY --id {cluster['example']}` shows"
            " both); if they only share a long text, set data.deduplicate.threshold higher"
            for cluster in output.results.get("large_clusters", ())
        ]
    return lines


def repetition(tokens: int, packed: float) -> list[str]:
    """Warn where a training of `tokens` tokens reads its packed data too often."""
    times = tokens / max(packed, 1)
    if times <= MOST_EPOCHS:
        return []
    return [
        f"training reads its data {times:,.1f} times over; beyond some {MOST_EPOCHS} times,"
        " language models were found to learn nothing more: add data, or lower"
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
    """Warn of sources with declared traces of which some responses have no mark.

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


def left_warnings(stripped: Output) -> list[str]:
    """Warn of sources whose kept responses still hold marks, or mention some.

    The line names the mark that stays in most responses.
    """
    counts: dict[str, Counter[str]] = {}
    for row in stripped.results.get("marks", ()):
        counts.setdefault(row["source"], Counter())[row["mark"]] += row["documents"]
    lines = []
    for name, marks in counts.items():
        ((mark, most),) = marks.most_common(1)
        lines.append(
            f"source {name!r}: {marks.total():,} kept responses hold what may be a mark of a trace"
            f" ({mark!r} in {most:,}); if it is one, name it in the source's `trace_marks`, or say"
            " with `trace` that it has traces"
        )
    return lines


def say(lines: Sequence[str]) -> None:
    """Write warnings to standard error, a line each."""
    for line in lines:
        write_line(f"{WARNS} {line}")
