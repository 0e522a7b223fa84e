"""Read the report out as plain parts, for a terminal: paragraphs, and tables without their figures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from reports.data import read_study
from reports.page.answer import first_screen
from reports.page.blocks import Block
from reports.page.sections import sections
from reports.style.theme import styles
from reports.tables.cells import Table


def plain_report(database: Path, study_id: str) -> Iterator[str | Table]:
    """Yield the answer, what makes the answer weak, and every section's heading, texts and tables in order.

    Raises InputError when the results file is missing or locked by another process, or holds no such study.
    """
    data = read_study(database, study_id)
    looks = styles(data.variants)
    first = first_screen(data, looks)
    yield from first.sentences
    yield from (f"! {warning}" for warning in first.warnings)
    for section in sections(data, looks):
        yield section.title.upper()
        yield from _plain(section.blocks)


def _plain(blocks: Iterable[Block]) -> Iterator[str | Table]:
    for block in blocks:
        if block.kind == "table" or block.kind in ("prose", "lead", "doubt", "heading"):
            yield block.content
        elif block.kind == "list":
            yield from (f"- {item}" for item in block.content)
        elif block.kind == "details":
            yield from _plain(block.content)
        elif block.kind == "code":
            yield f"{block.label}\n{block.content}"
