"""Find one figure of a study's report by its name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from altair.utils.schemapi import debug_mode

from dreamer_study.pipeline.errors import InputError, nearest
from dreamer_study.reports.data import read_study
from dreamer_study.reports.figures.rendering import Figure
from dreamer_study.reports.page.answer import first_screen
from dreamer_study.reports.page.blocks import Block, drawn, figures_in
from dreamer_study.reports.page.sections import sections
from dreamer_study.reports.style.theme import styles


def named_figure(database: Path, study_id: str, name: str) -> Figure:
    """Draw the figure of a name.

    Raises InputError, which lists the figures of the study, for another name.
    """
    data = read_study(database, study_id).drawable()
    looks = styles(data.variants)
    # Checking every part of every figure would take a third of the time; tests check figures.
    with debug_mode(False):
        blocks = list(first_screen(data, looks).drawing)
        for section in sections(data, looks):
            blocks += section.blocks
        names = []
        for figure in _figures(blocks):
            if figure.name == name:
                return figure
            names.append(figure.name)
    raise InputError(
        f"no figure {name!r} of {study_id}{nearest(name, names)}; there are {', '.join(names)}"
    )


def _figures(blocks: Iterable[Block]) -> Iterator[Figure]:
    """Draw the figures of blocks one after another, only as many as are asked for."""
    for block in blocks:
        if block.kind == "details":
            yield from _figures(block.content)
        elif block.kind == "drawing":
            yield from figures_in(drawn([block]))
