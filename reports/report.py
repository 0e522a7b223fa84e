"""The HTML report of a study: one file with everything in it, and its figures for papers beside it.

Nothing is computed here: the report says what the views of the results file hold. The page can be read without script;
with it, the drawings are replaced by live ones that fit their place and show numbers.
"""

from __future__ import annotations

import re
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from itertools import count
from pathlib import Path

import jinja2
import vl_convert
from markupsafe import Markup

from reports import drawing
from reports.rows import Rows, read_rows
from reports.sections import Section, sections, study_file
from reports.theme import MARKERS, css_variables, styles
from reports.words import depth_name, listed, missing, tokens

TEMPLATES = Path(__file__).resolve().parent / "templates"
FIGURE_FILE = re.compile(r'<a href="figures/([a-z0-9-]+)\.(svg|pdf|png)">')  # as the template writes them
QUESTION = "How many training tokens does each architecture need to reach the same accuracy?"


def write_report(database: Path, study_id: str, folder: Path) -> Path:
    """Write `index.html`, `figures/` and `study.yaml` into `folder`; returns the page's path.

    Raises InputError when the results file is missing or locked by another process, or holds no such study.
    """
    rows = read_rows(database, study_id)
    content = sections(rows, styles(rows.variants))
    folder.mkdir(parents=True, exist_ok=True)
    page, configuration = folder / "index.html", study_file(rows)
    # Vega works outside Python's lock, so the files for papers are drawn while the page is put together.
    with ThreadPoolExecutor(1) as pool:
        exports = pool.map(partial(drawing.export, folder=folder / "figures"), _figures(content))
        written = page.with_name(".index.html.partial")  # a reader never sees half a page
        written.write_text(_page(rows, content), encoding="utf-8")
        deque(exports, maxlen=0)  # raises what an export raised
    if configuration:
        (folder / "study.yaml").write_text(configuration, encoding="utf-8")
    _forget_figures(page, {figure.name for figure in _figures(content)})
    written.replace(page)
    return page


def _forget_figures(page: Path, names: set[str]) -> None:
    """Delete the figures that the earlier report at this place refers to and the new one does not have.

    Only what its page names as its own is touched, so that files a user put beside them stay.
    """
    earlier = page.read_text(encoding="utf-8", errors="replace") if page.exists() else ""
    for name, ending in set(FIGURE_FILE.findall(earlier)):
        if name not in names:
            (page.parent / "figures" / f"{name}.{ending}").unlink(missing_ok=True)


def _figures(content: list[Section]) -> list[drawing.Figure]:
    return [block.content for section in content for block in section.blocks if block.kind == "figure"]


def _page(rows: Rows, content: list[Section]) -> str:
    number = count()
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True
    )
    # What these return is markup made from data that Vega and `script_json` have escaped.
    environment.globals["drawn"] = lambda panel, wide: Markup(drawing.page_drawing(panel, next(number), wide))
    environment.globals["specified"] = lambda panel: Markup(drawing.page_specification(panel))
    environment.globals["markers"] = MARKERS
    name = str(rows.study.get("name") or rows.study["study_id"])
    return environment.get_template("report.html.j2").render(
        title=f"{name}: training tokens to the same accuracy",
        question=QUESTION,
        facts=_facts(rows),
        sections=content,
        style=Markup(_style()),
        library=Markup(_library()) if _figures(content) else None,
        script=Markup((TEMPLATES / "report.js").read_text()),
    )


def _facts(rows: Rows) -> list[tuple[str, str]]:
    """The few things one wants to know of a study at first sight."""
    created = rows.study.get("created_at")
    evaluated = sorted(rows.best["seeds"].dropna().astype(int).unique()) if len(rows.best) else []
    known = [
        ("Study", rows.study["study_id"]),
        ("Date", None if created is None else f"{created:%d %B %Y}"),
        ("Models", listed(list(styles(rows.variants))) if rows.variants else None),
        ("Depth", listed([depth_name(depth, short=True) for depth in rows.depths]) if rows.depths else None),
        ("Training tokens", None if missing(rows.runs["tokens"].max()) else tokens(rows.runs["tokens"].max())),
        ("Seeds per model", listed([str(seeds) for seeds in evaluated]) if evaluated else None),
        ("Code", rows.study.get("code_version")),
    ]
    return [(name, str(value)) for name, value in known if value]


def _style() -> str:
    light, dark = css_variables(), css_variables(dark=True)
    colours = f":root {{ {light} }}\n@media screen and (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}\n"
    return colours + (TEMPLATES / "report.css").read_text()


@cache
def _library() -> str:
    """Vega, Vega-Lite and Vega-Embed in one script that can stand in a page."""
    bundle = vl_convert.javascript_bundle()
    return bundle.replace("</script", "<\\/script").replace("<!--", "<\\!--")
