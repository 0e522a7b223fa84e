"""Define the parts of the page: sections of blocks, which the template sets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from reports.figures.rendering import Figure
from reports.tables.cells import Table


@dataclass(frozen=True)
class Block:
    """One part of a section: `kind` says how the template sets `content`; `label` heads code and details."""

    kind: str
    content: Any
    label: str = ""


@dataclass(frozen=True)
class Section:
    """A heading with blocks below it; `name` is its anchor."""

    name: str
    title: str
    blocks: list[Block]


def figure_block(content: Figure | None) -> list[Block]:
    """Show a figure, where there is one."""
    return [Block("figure", content)] if content else []


def table_block(content: Table) -> list[Block]:
    """Show a table that has rows."""
    return [Block("table", content)] if content.rows else []


def details_block(label: str, content: Table) -> list[Block]:
    """Fold a table away until asked for."""
    return [Block("details", table_block(content), label)] if content.rows else []
