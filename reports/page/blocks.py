"""Define the parts of the page: sections of blocks, which the template sets."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from reports.tables.cells import Table

if TYPE_CHECKING:
    from reports.figures.rendering import Figure


@dataclass(frozen=True)
class Drawing:
    """A figure to be drawn: `function` is the `module.name` in `reports.figures` that draws from `arguments`.

    The module is imported when the figure is drawn: Altair and the figures take seconds, which no text waits for.
    """

    function: str
    arguments: tuple[Any, ...]

    def draw(self) -> Figure | None:
        """Draw the figure; None where the study has nothing to be drawn."""
        module, name = self.function.split(".")
        return getattr(import_module(f"reports.figures.{module}"), name)(*self.arguments)


@dataclass(frozen=True)
class Block:
    """One part of a section: `kind` says how the template sets `content`; `label` heads code and details.

    A block of the kind "drawing" becomes a block of the kind "figure" by `drawn`.
    """

    kind: str
    content: Any
    label: str = ""


@dataclass(frozen=True)
class Section:
    """A heading with blocks below it; `name` is its anchor."""

    name: str
    title: str
    blocks: list[Block]


def drawing_block(function: str, *arguments: Any) -> Block:
    """Show the figure of a `Drawing`."""
    return Block("drawing", Drawing(function, arguments))


def table_block(content: Table) -> list[Block]:
    """Show a table that has rows."""
    return [Block("table", content)] if content.rows else []


def details_block(label: str, content: Table) -> list[Block]:
    """Fold a table away until asked for."""
    return [Block("details", table_block(content), label)] if content.rows else []


def drawn(blocks: Iterable[Block]) -> list[Block]:
    """Draw the figures of blocks; a drawing of nothing is left out."""
    made = (
        replace(block, kind="figure", content=block.content.draw()) if block.kind == "drawing" else block
        for block in blocks
    )
    return [block for block in made if block.content is not None]
