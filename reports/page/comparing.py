"""Write one page about several studies: their curves and tables side by side, and what changed beyond noise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from reports.data import QUERIES, StudyData, read_study
from reports.page.answer import FirstScreen, mean_curves
from reports.page.blocks import Block, Drawing, Section, drawn, table_block
from reports.page.report import make_page
from reports.page.sections import data_blocks, reproduction, sections
from reports.page.tracing import NAMES, with_label
from reports.style.theme import Style, ordered
from reports.tables.changes import changes
from reports.tables.efficiency import MEAN
from reports.text.answer import answers
from reports.text.limitations import limitations
from reports.text.mean_factors import headline
from sql.names import BASELINE
from sql.statistics.comparison import Comparison, compare, study_of

# A factor is against the baseline of its own study, so the baseline's own factor of 1 is left out.
AGAINST_BASELINE = ("mean_factors", "factor_by_target", "diversity")
OF_DATA = ("funnel", "funnel_by_source", "curation", "sources", "unmarked")
# What is of one study only: factors by the paper's rule (compared in the tables of changes), and the data.
OF_ONE = ("efficiency", "interpolated", "compute", *OF_DATA, "mismatches")
APART = ("data", "caveats", "reproduce")  # sections that each study has for itself


def write_comparison(places: Sequence[tuple[Path, str | None]], page: Path) -> Path:
    """Write the page of studies, each a results file and, where the file holds several, a study's id; returns its path.

    Every study is compared with the first. Raises InputError where two of them have nothing in common to compare.
    """
    known = [(path, study_of(path, name)) for path, name in places]
    (first, one), *others = known
    found = [compare(first, path, first_study=one, second_study=other) for path, other in others]
    read = [read_study(*place) for place in known]
    studies = {label: _labelled(data, label) for label, data in zip(_labels(read), read, strict=True)}

    def build(data: StudyData, looks: Mapping[str, Style]) -> tuple[FirstScreen, list[Section]]:
        shown = [section for section in sections(data, looks, one_stream=False) if section.name not in APART]
        return _first_screen(data, looks, found), [_changes(found, list(studies)), *shown, *_of_each(studies)]

    text, _ = make_page(together(studies), build, studies, beside=False)
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(text, encoding="utf-8")
    return page


def _labels(read: Sequence[StudyData]) -> list[str]:
    """Name each study; studies of one name get a number."""
    names = [str(data.study.get("name") or data.study["study_id"]) for data in read]
    many = Counter(names)
    return [name if many[name] == 1 else f"{name} ({place})" for place, name in enumerate(names, start=1)]


def _labelled(data: StudyData, label: str) -> StudyData:
    """Let the rows of a study name the study by its label: two results files may hold studies of one id."""
    frames = {
        name: frame.assign(study_id=label) if "study_id" in frame else frame for name, frame in data.frames.items()
    }
    return replace(data, frames=frames)


def together(studies: Mapping[str, StudyData]) -> StudyData:
    """Join studies to one whose variants and runs have the study's label behind their names."""
    frames = {}
    for name in QUERIES:
        parts = [_told_apart(data.frames[name], label, name) for label, data in studies.items()]
        filled = [part for part in parts if len(part)] or parts[:1]
        frames[name] = pd.concat(filled, ignore_index=True)
    title = " against ".join(studies)
    return StudyData({"study_id": title, "name": title}, frames)


def _told_apart(frame: pd.DataFrame, label: str, name: str) -> pd.DataFrame:
    if name in OF_ONE:
        return frame.iloc[:0]
    if name in AGAINST_BASELINE:
        frame = frame[frame["variant"] != BASELINE]
    named = [column for column in NAMES if column in frame]
    return frame.assign(**{column: frame[column].map(lambda one: with_label(one, label), "ignore") for column in named})


def _first_screen(data: StudyData, looks: Mapping[str, Style], found: Sequence[Comparison]) -> FirstScreen:
    """Show the verdicts, the mean factors in words, what could not be compared, and the curves."""
    verdicts = [f"{one.verdict[0].upper()}{one.verdict[1:]}." for one in found]
    means = ordered(headline(data.mean_factors), looks)
    said = [sentence for _, sentence in answers(means, data.efficiency)]
    notes = [f"{note[0].upper()}{note[1:]}." for one in found for note in one.notes]
    drawing = Drawing("answer.answer", (means, mean_curves(data), data.factor_by_target, looks))
    return FirstScreen([*verdicts, *said], notes, drawing, (MEAN,) * len(said[:1]))


def _changes(found: Sequence[Comparison], names: Sequence[str]) -> Section:
    blocks = []
    for place, one in enumerate(found, start=1):
        pair = (names[0], names[place])
        blocks.append(Block("heading", f"{pair[1]} against {pair[0]}"))
        blocks += [block for table in changes(one, pair, str(place)) for block in table_block(table)]
    return Section("changes", "What changed", blocks)


def _of_each(studies: Mapping[str, StudyData]) -> list[Section]:
    """Show data, limits and study file of each study under its name."""
    titles = {"data": "Data", "caveats": "How far to trust this", "reproduce": "Run it again"}
    blocks: dict[str, list[Block]] = {name: [] for name in titles}
    for place, (label, data) in enumerate(studies.items(), start=1):
        doubts = limitations(data)
        parts = {
            "data": [_renamed(block, place) for block in drawn(data_blocks(data))],
            "caveats": [Block("list", doubts)] if doubts else [],
            "reproduce": [_renamed(block, place) for block in reproduction(data)],
        }
        for name, part in parts.items():
            blocks[name] += [Block("heading", label), *part] if part else []
    return [Section(name, titles[name], part) for name, part in blocks.items() if part]


def _renamed(block: Block, place: int) -> Block:
    """Give figures and tables that several studies have a name for each study."""
    if block.kind == "details":
        return replace(block, content=[_renamed(inner, place) for inner in block.content])
    if block.kind not in ("figure", "table"):
        return block
    return replace(block, content=replace(block.content, name=f"{block.content.name}-of-{place}"))
