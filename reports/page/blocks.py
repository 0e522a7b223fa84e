"""Define the parts of the page: sections of blocks, which the template sets."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pandas as pd

from dreamer_study.reports.data import QUERIES, StudyData
from dreamer_study.reports.tables.cells import Table

if TYPE_CHECKING:
    from dreamer_study.reports.figures.rendering import Figure


@dataclass(frozen=True)
class Block:
    """One part of a section: `kind` says how the template sets `content`.

    `label` heads code and details. Details that are `brief` are printed in a terminal too.

    A block of the kind "drawing", whose content draws, becomes one of the kind "figure" by `drawn`.
    `queries` give the rows that a figure or a table is made of.
    """

    kind: str
    content: Any
    label: str = ""
    queries: tuple[str, ...] = ()
    brief: bool = False


@dataclass(frozen=True)
class Section:
    """A heading with blocks below it; `name` is its anchor."""

    name: str
    title: str
    blocks: list[Block]


def drawing_block(data: StudyData, frames: str, function: str, *arguments: Any) -> Block:
    """Show the figure that a function draws from frames of a study and from arguments.

    `frames` are names with spaces between, `function` is the `module.name` in
    `reports/figures/`. The module is imported when the figure is
    drawn: Altair and the figures take seconds, which no text waits for.
    """

    def draw() -> Figure | None:
        module_name, name = function.split(".")
        module = import_module(f"dreamer_study.reports.figures.{module_name}")
        return getattr(module, name)(*_frames(data, frames), *arguments)

    return Block("drawing", draw, queries=queries(data, frames))


def table_block(
    data: StudyData, frames: str, make: Callable[..., Table], *arguments: Any
) -> list[Block]:
    """Show the table that a function makes of frames of a study and of arguments.

    Nothing where the table has no rows.
    """
    content = make(*_frames(data, frames), *arguments)
    if not content.rows:
        return []
    return [Block("table", content, queries=queries(data, frames))]


def details_block(label: str, blocks: list[Block], *, brief: bool = False) -> list[Block]:
    """Fold blocks away until asked for."""
    return [Block("details", blocks, label, brief=brief)] if blocks else []


def _frames(data: StudyData, names: str) -> list[pd.DataFrame]:
    return [getattr(data, name) for name in names.split()]


def queries(data: StudyData, names: str) -> tuple[str, ...]:
    """Return the queries of frames of a study, whose names have spaces between."""
    study = "'" + data.study["study_id"].replace("'", "''") + "'"
    return tuple(QUERIES[name].replace("?", study) for name in names.split())


def drawn(blocks: Iterable[Block]) -> list[Block]:
    """Draw the figures of blocks, folded ones too; a drawing of nothing is left out."""
    with_figures = map(_drawn, blocks)
    return [block for block in with_figures if block.content]


def _drawn(block: Block) -> Block:
    if block.kind == "drawing":
        return replace(block, kind="figure", content=block.content())
    if block.kind == "details":
        return replace(block, content=drawn(block.content))
    return block


def figures_in(blocks: Iterable[Block]) -> list[Figure]:
    """Return the figures of drawn blocks, those of folded ones too."""
    figures: list[Figure] = []
    for block in blocks:
        if block.kind == "details":
            figures += figures_in(block.content)
        elif block.kind == "figure":
            figures.append(block.content)
    return figures
