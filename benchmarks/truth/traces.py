"""Measure what is left of reasoning traces in every form of marks; decides whether a change of the
table or of its rule is kept.

    python -m benchmarks.truth.traces [--documents 500]

The traces and solutions of the built-in world are written in each form of the table: as they are,
in upper case, with the end of the trace cut off, twice in a response, and behind a sentence.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.tables import print_table
from dreamer_study.pipeline.sources.read import read_source
from dreamer_study.pipeline.sources.repositories.splits import find_split
from dreamer_study.pipeline.sources.table import resolve_source
from dreamer_study.pipeline.storage.documents import read_documents
from dreamer_study.pipeline.traces.marks import EXAMPLES
from dreamer_study.pipeline.traces.strip import strip_trace
from dreamer_study.pipeline.worlds.settings import WorldSettings
from dreamer_study.pipeline.worlds.world import WORLD_SOURCES, write_world

THOUGHT, SOLUTION = "2 + 2?", "So 4."  # of the examples
# A form, its trace and its solution become a response and what must be left of it.
Edit = Callable[[str, str, str], tuple[str, str]]


def planted(form: str, trace: str, solution: str) -> tuple[str, str]:
    """Write a trace and a solution in a form."""
    written = (trace, solution)
    if form == "parts of a message":
        written = (json.dumps(trace)[1:-1], json.dumps(solution)[1:-1])
    return EXAMPLES[form].replace(THOUGHT, written[0]).replace(SOLUTION, written[1]), solution


def upper(form: str, trace: str, solution: str) -> tuple[str, str]:
    """Write all in upper case."""
    response, left = planted(form, trace, solution)
    return response.upper(), left.upper()


def cut_off(form: str, trace: str, solution: str) -> tuple[str, str]:
    """Stop within the trace."""
    response, _ = planted(form, trace, solution)
    return response[: response.index(trace) + len(trace) // 2], ""


def twice(form: str, trace: str, solution: str) -> tuple[str, str]:
    """Write two traces with a solution behind each."""
    response, left = planted(form, trace, solution)
    return f"{response}\n{response}", f"{left}\n\n{left}"


def behind_a_sentence(form: str, trace: str, solution: str) -> tuple[str, str]:
    """Write a sentence before the trace."""
    response, left = planted(form, trace, solution)
    return f"Sure!\n{response}", f"Sure!\n\n{left}"


EDITS: tuple[Edit, ...] = (planted, upper, cut_off, twice, behind_a_sentence)
# Forms that an edit makes another text of: where nothing opens a trace, no cut and no sentence is
# seen; words that no answer follows are a heading; words count in lower case or at the response's
# start, and parts only as a whole response.
FOREIGN = {
    ("upper", "channels without their tokens"),
    ("upper", "parts of a message"),
    ("cut_off", "closing tag alone"),
    ("cut_off", "heading"),
    ("cut_off", "label"),
    ("cut_off", "name in square brackets"),
    ("cut_off", "name in curly brackets"),
    ("cut_off", "words (Ollama)"),
    ("cut_off", "words (Granite)"),
    ("cut_off", "words (Apriel)"),
    ("cut_off", "parts of a message"),
    ("twice", "closing tag alone"),
    ("twice", "parts of a message"),
    *(
        ("behind_a_sentence", form)
        for form in (
            "closing tag alone",
            "channels without their tokens",
            "heading",
            "label",
            "words (Granite)",
            "words (Apriel)",
            "words (Ollama)",
            "parts of a message",
        )
    ),
}


def stories(folder: Path, documents: int) -> Iterator[tuple[str, str]]:
    """Yield traces and solutions of the built-in world."""
    write_world(folder / "world", WorldSettings(documents=documents))
    source = resolve_source(WORLD_SOURCES["stories"])
    files = find_split(folder / "world" / source.repository, "default", "train")
    read_source(source, files, folder / "read")
    for batch in read_documents(folder / "read", columns=["response"]):
        for response in batch["response"].to_pylist():
            trace, closing, solution = response.removeprefix("<think>").partition("</think>")
            if closing and trace.strip() and solution.strip():
                yield trace.strip(), solution.strip()


def measure(folder: Path, documents: int) -> None:
    """Print for every form and edit how many responses are left as they must be."""
    pairs = list(stories(folder, documents))
    rows = []
    for form in EXAMPLES:
        row: dict[str, object] = {"form": form, "responses": len(pairs)}
        for edit in EDITS:
            name = edit.__name__
            row[name] = ""
            if (name, form) not in FOREIGN:
                responses = [edit(form, *pair) for pair in pairs]
                row[name] = sum(strip_trace(response).text == left for response, left in responses)
        rows.append(row)
    print_table(f"Right of {len(pairs)} traces of the built-in world, by form", rows)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.truth.traces", description=__doc__.splitlines()[0]
    )
    parser.add_argument(
        "--documents", type=int, default=500, help="documents of the built-in world"
    )
    with tempfile.TemporaryDirectory(prefix="truth-") as folder:
        measure(Path(folder), parser.parse_args().documents)


if __name__ == "__main__":
    main()
