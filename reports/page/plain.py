"""Convert a report to paragraphs and tables for a terminal.

Figures and folded parts of the page are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from dreamer_study.reports.data import read_study
from dreamer_study.reports.page.answer import first_screen
from dreamer_study.reports.page.blocks import Block
from dreamer_study.reports.page.sections import sections
from dreamer_study.reports.style.theme import styles
from dreamer_study.reports.tables.cells import Table
from dreamer_study.reports.text.numbers import listed


def plain_report(
    database: Path, study_id: str, price: float | None = None
) -> Iterator[str | Table]:
    """Yield the answer, its weaknesses, what was compared, and every section.

    A section is its heading, and its texts and tables in order. What the page folds away is named
    at the end. `price` is as of `write_report`. Raises InputError when the results file is missing
    or locked by another process, or holds no such study.
    """
    data = read_study(database, study_id)
    looks = styles(data.variants)
    first = first_screen(data, looks)
    yield from first.sentences
    yield from _plain(first.ranked)
    yield from first.second
    if first.warnings:
        yield "\n".join(f"! {warning}" for warning in first.warnings)
    yield from _plain(first.compared)
    all_sections = sections(data, looks, price)
    for section in all_sections:
        parts = list(_plain(section.blocks))
        if parts:
            yield section.title.upper()
            yield from parts
    folded = [
        block.label
        for section in all_sections
        for block in section.blocks
        if block.kind == "details" and not block.brief
    ]
    if folded:
        yield f"The page has the figures, and folded away: {listed(list(dict.fromkeys(folded)))}."


def _plain(blocks: Iterable[Block]) -> Iterator[str | Table]:
    for block in blocks:
        if block.kind in ("table", "prose", "doubt"):
            yield block.content
        elif block.brief:
            yield from _plain(block.content)
        elif block.kind == "list":
            yield "\n".join(f"- {item}" for item in block.content)
        elif block.kind == "code":
            yield f"{block.label}\n{block.content}"
