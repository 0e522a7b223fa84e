"""Write the HTML report of a study: one file with everything in it.

The figures for papers are beside the page. The first screen and all texts and tables can be read
without script. The page's script draws the figures where they are looked at, so that the page holds
each of them once; they fit their place, show numbers, and answer to the toolbar.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import count
from pathlib import Path

import jinja2
from altair.utils.schemapi import debug_mode
from markupsafe import Markup

from dreamer_study.pipeline.errors import InputError
from dreamer_study.reports import style
from dreamer_study.reports.data import StudyData, read_study
from dreamer_study.reports.figures.library import packed, packed_library
from dreamer_study.reports.figures.rendering import (
    ENDINGS,
    Figure,
    export,
    page_drawing,
    page_specifications,
    put,
)
from dreamer_study.reports.page.answer import first_screen
from dreamer_study.reports.page.blocks import drawn, figures_in
from dreamer_study.reports.page.sections import sections, study_file
from dreamer_study.reports.page.toolbar import toolbar
from dreamer_study.reports.style.theme import MARKERS, Style, css_variables, styles
from dreamer_study.reports.tables.examples import items_in_full
from dreamer_study.reports.text.names import ShortNames, short_names, task_name

TEMPLATES = Path(__file__).resolve().parent
STYLE = Path(style.__file__).resolve().parent
SCRIPTS = ("choice", "words", "figures", "files", "tables", "answers", "page")
FIGURE = re.compile(r'<figure [^>]*data-figure="([a-z0-9-]+)"')  # as the template writes them
QUESTION = "How many training tokens does each architecture need to reach the same accuracy?"


def write_report(
    database: Path,
    study_id: str,
    folder: Path,
    *,
    papers: bool = True,
    price: float | None = None,
) -> Path:
    """Write `index.html`, then `study.yaml` and `figures/`, into `folder`; returns the page's path.

    Without `papers` no new figures for papers are drawn, which take most of the time. `price` is
    that of an hour of a GPU or core, which the total cost is computed with. Raises InputError when
    the results file is missing or locked by another process, or holds no such study.
    """
    return write_data(read_study(database, study_id), folder, papers=papers, price=price)


def page_text(database: Path, study_id: str, price: float | None = None) -> str:
    """Return the text of a page that has no files beside it. Raises what `write_report` raises."""
    text, _ = _page(read_study(database, study_id), beside=False, price=price)
    return text


def write_data(
    data: StudyData, folder: Path, *, papers: bool = True, price: float | None = None
) -> Path:
    """Write the report of data that have been read already, as `write_report` does.

    Returns the page's path. Raises InputError where the folder, or `figures` in it, is a link: a
    folder of somebody else may hold such links, and files elsewhere would be replaced.
    """
    for place in (folder, folder / "figures"):
        if place.is_symlink():
            raise InputError(f"{place} is a link to {place.resolve()}; remove the link")
    text, figures = _page(data, beside=papers or (folder / "figures").exists(), price=price)
    folder.mkdir(parents=True, exist_ok=True)
    page = folder / "index.html"
    configuration = study_file(data)
    _remove_old_figures(page, {figure.name for figure in figures})
    put(page, text.encode())
    if configuration:
        put(folder / "study.yaml", configuration.encode())
    if papers:
        for figure in figures:
            export(figure, folder / "figures")
    return page


def _remove_old_figures(page: Path, names: set[str]) -> None:
    """Delete the files of figures that an earlier page here has and the new page does not have.

    Files that a user put beside them stay.
    """
    earlier = page.read_text(encoding="utf-8", errors="replace") if page.exists() else ""
    for name in set(FIGURE.findall(earlier)) - names:
        for ending in ENDINGS:
            (page.parent / "figures" / f"{name}.{ending}").unlink(missing_ok=True)


def _page(data: StudyData, *, beside: bool, price: float | None) -> tuple[str, list[Figure]]:
    """Return the page's text and figures. `beside`: files of the figures lie beside the page."""
    data = data.drawable()
    looks = styles(data.variants)
    short = _short_names(data)
    # Checking every part of every figure would take a third of the time; tests check figures.
    with debug_mode(False):
        first = first_screen(data, looks)
        answer = drawn(first.drawing)
        content = [
            replace(section, blocks=drawn(section.blocks))
            for section in sections(data, looks, price)
        ]
    shown = [section for section in content if section.blocks]
    figures = figures_in([*answer, *(block for section in shown for block in section.blocks)])
    name = str(data.study.get("name") or data.study["study_id"])
    specifications = None
    if figures:
        specifications = json.dumps(
            page_specifications(figures, data.costs, short.shown),
            separators=(",", ":"),
            allow_nan=False,
        )
    text = _template(short).render(
        title=f"{name}: training tokens to the same accuracy",
        study=name,
        question=QUESTION,
        first=first,
        answer=answer,
        numbers={figure.name: place for place, figure in enumerate(figures, start=1)},
        toolbar=toolbar(figures, looks, data.costs),
        identity=_identity(data),
        sections=shown,
        style=Markup(_style()),
        library=packed_library() if figures else "",
        beside=beside,
        figures=packed(specifications) if specifications else None,
        answers=_answers(data, looks),
        script=Markup(_script()),
    )
    return text, figures


def _answers(data: StudyData, looks: Mapping[str, Style]) -> str:
    """Pack what the page shows of one question; empty where no answers are known."""
    if data.examples.empty:
        return ""
    of_items = items_in_full(data.examples, data.answers_over_training, looks)
    return packed(json.dumps(of_items, separators=(",", ":"), allow_nan=False))


def _short_names(data: StudyData) -> ShortNames:
    """Shorten the names of variants, of benchmarks, and of sources of data."""
    frames = (data.accuracy, data.loss, data.perplexity)
    tasks = dict.fromkeys(task_name(task) for frame in frames for task in frame["task"])
    sources = data.curation["source"].dropna().unique()
    return short_names(data.variants, sorted(tasks), sorted(sources))


def _template(short: ShortNames) -> jinja2.Template:
    number = count()
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
    )
    # What this returns is markup made from data that Vega has escaped.
    environment.globals["drawn"] = lambda panel: Markup(page_drawing(panel, next(number)))
    environment.globals["markers"] = MARKERS
    environment.filters["cut"] = short
    return environment.get_template("report.html.j2")


def _identity(data: StudyData) -> str:
    """Name the study, its day and its code."""
    created = data.study.get("created_at")
    parts = (
        data.study["study_id"],
        created and f"{created:%d %B %Y}",
        data.study.get("code_version"),
    )
    return " · ".join(str(part) for part in parts if part)


def _style() -> str:
    light = css_variables()
    dark = css_variables(dark=True)
    colours = (
        f":root {{ {light} }}\n@media screen and (prefers-color-scheme: dark) {{ :root {{ {dark} }}"
        " }\n"
    )
    return colours + (STYLE / "report.css").read_text()


def _script() -> str:
    """Join the page's scripts within one function: the library leaves one-letter names behind."""
    parts = "\n".join((STYLE / f"{name}.js").read_text() for name in SCRIPTS)
    return f'(() => {{\n"use strict";\n{parts}}})();'
