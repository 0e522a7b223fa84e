"""Write the built-in world: a seeded data set of small problems, with benchmarks, in the layout of
a mirror.

Its training rows contain reasoning traces, duplicates, leaked benchmark items and broken rows on
purpose, with the kind of every row in files beside them. The files do not depend on the folder,
which may be moved.
"""

from __future__ import annotations

import gzip
import io
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import cycle, islice
from pathlib import Path
from random import Random
from typing import Any

import yaml

from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.storage.parallel import Progress, quiet
from dreamer_study.pipeline.worlds.distinct_problems import Crowd
from dreamer_study.pipeline.worlds.drawing import pick, shuffled
from dreamer_study.pipeline.worlds.planting import (
    BROKEN,
    TRACES,
    Row,
    columns,
    edited,
    repeat_nearly,
    similarity,
    vary_numbers,
)
from dreamer_study.pipeline.worlds.settings import STORIES, WorldSettings
from dreamer_study.pipeline.worlds.stories import Story
from dreamer_study.pipeline.worlds.tasks import (
    LEVELS,
    REPOSITORY,
    WORLD_BENCHMARKS,
    benchmark_row,
    card,
    data_file,
    levels,
    task,
)

WORLD_SOURCES: dict[str, dict[str, Any]] = {
    "stories": {
        "name": "world",
        "repository": REPOSITORY,
        "question": "question",
        "response": "response",
        "answer": "answer",
    },
    "sheets": {
        "name": "sheets",
        "repository": REPOSITORY,
        "configurations": ["sheets"],
        "text": "text",
    },
}
WORLD_LICENCE = "Apache-2.0"  # the project's own


def write_world(
    output: Path, settings: WorldSettings, *, progress: Progress = quiet
) -> dict[str, Any]:
    """Write the world as a mirror under `output`; return {"rows", "truth": rows by kind, "traces",
    "items"}.

    `builtin/world/` is the data set in hub layout, `truth.jsonl` has a line for each training row
    of stories (row, kind, edit, of, similarity, trace) and `sheets.truth.jsonl` one for each sheet
    (row, kind, of), `tasks/<task>.yaml` are the lm-eval tasks without `dataset_path`,
    `tasks/levels.json` their levels of chance. Equal settings give equal content on every machine.
    """
    output = Path(output)
    folder = output / REPOSITORY
    problems = _benchmark_problems(settings)
    rows = _stories(settings, problems, progress) if STORIES in settings.families else []
    sheets = _sheets(settings, problems)
    progress(0.8, "writing")
    (output / "tasks").mkdir(parents=True, exist_ok=True)

    if rows:
        random = Random(f"{settings.seed}/rows")
        _write_lines(folder / "default" / "train.jsonl.gz", (columns(random, row) for row in rows))
        numbers = {id(row): number for number, row in enumerate(rows)}
        _write_lines(output / "truth.jsonl", (_truth(row, numbers) for row in rows))
    if sheets:
        _write_lines(
            folder / "sheets" / "train.jsonl.gz", ({"text": text} for _, _, text in sheets)
        )
        lines = ({"row": row, "kind": kind, "of": of} for row, (kind, of, _) in enumerate(sheets))
        _write_lines(output / "sheets.truth.jsonl", lines)
    random = Random(f"{settings.seed}/choices")
    found = {}
    for name, drawn in problems.items():
        asked = (benchmark_row(name, random, problem) for problem in drawn)
        _write_lines(folder / data_file(WORLD_BENCHMARKS[name]), asked)
        (output / "tasks" / f"{name}.yaml").write_text(yaml.safe_dump(task(name), sort_keys=False))
        found[name] = levels(WORLD_BENCHMARKS[name]["kind"], drawn)
    (output / LEVELS).write_text(json.dumps(found, indent=1))
    trained = [name for name, some in (("default", rows), ("sheets", sheets)) if some]
    (folder / "README.md").write_text(card(trained, problems))
    progress(1.0, "written")
    return {
        "rows": len(rows) + len(sheets),
        "truth": dict(
            sorted(Counter([*(row.kind for row in rows), *(kind for kind, _, _ in sheets)]).items())
        ),
        "traces": dict(sorted(Counter(row.trace for row in rows).items())),
        "items": {name: len(drawn) for name, drawn in problems.items()},
    }


def world_sources(settings: WorldSettings) -> list[dict[str, Any]]:
    """Return the sources that a world of these settings has, as the table of sources would name
    them."""
    has = {"stories": STORIES in settings.families, "sheets": bool(settings.sheets)}
    return [source for name, source in WORLD_SOURCES.items() if has[name]]


# --- the rows ---


def _benchmark_problems(settings: WorldSettings) -> dict[str, Any]:
    """Draw the items of the benchmarks of the world's families, and the texts of the validation
    split."""
    crowd = Crowd()
    problems: dict[str, Any] = {}
    for name, benchmark in WORLD_BENCHMARKS.items():
        random, family = Random(f"{settings.seed}/{name}"), benchmark["family"]
        if family in settings.sheets:
            problems[name] = [settings.sheets[family](random) for _ in range(settings.items)]
        elif family in settings.families:
            steps = settings.steps(benchmark["configuration"])
            problems[name] = [
                crowd.draw(random, steps, settings.nouns) for _ in range(settings.items)
            ]
    return problems


def _sheets(
    settings: WorldSettings, problems: Mapping[str, Sequence]
) -> list[tuple[str, Any, str]]:
    """Make all training rows of sheets in their final order: kind, row or benchmark item that they
    repeat, text."""
    random = Random(f"{settings.seed}/sheets")
    count = settings.documents - settings.documents_of_stories
    names = [name for name in problems if WORLD_BENCHMARKS[name]["family"] in settings.sheets]
    if not names:
        return []
    leaks = [
        ("leak", f"{name}/{item}", problems[name][item].text)
        for name in names
        for item in shuffled(random, range(settings.items))[
            : round(settings.leaked * settings.items)
        ]
    ]
    exact, broken = (round(count * share) for share in (settings.exact_duplicates, settings.broken))
    clean = count - len(leaks) - exact - broken
    if clean < exact:
        raise InputError(
            f"world: {count} sheets leave {max(clean, 0)} clean ones, fewer than {exact}: ask for"
            " more"
        )
    draws = islice(cycle(settings.sheets.values()), clean)
    originals = [("clean", None, draw(random).text) for draw in draws]
    repeated = [("exact", text, text) for _, _, text in originals[:exact]]
    rows = shuffled(random, [*leaks, *originals, *repeated, *[("broken", None, "")] * broken])
    places = {text: row for row, (kind, _, text) in enumerate(rows) if kind == "clean"}
    return [(kind, places[of] if kind == "exact" else of, text) for kind, of, text in rows]


def _stories(
    settings: WorldSettings, problems: Mapping[str, Sequence], progress: Progress
) -> list[Row]:
    """Make all training rows of stories in their final order."""
    random = Random(f"{settings.seed}/train")
    problems = {
        name: drawn
        for name, drawn in problems.items()
        if WORLD_BENCHMARKS[name]["family"] == STORIES
    }
    documents = settings.documents_of_stories
    crowd = Crowd(story for drawn in problems.values() for story in drawn)
    leaks = _leaks(random, settings, problems)
    exact = round(documents * settings.exact_duplicates)
    near = round(documents * settings.near_duplicates)
    variants = round(documents * settings.number_variants)
    broken = round(documents * settings.broken)
    unclosed = round(documents * settings.unclosed)
    repeats = exact + near + variants
    clean = documents - len(leaks) - (repeats + broken + unclosed)
    if clean < 2 * repeats:
        raise InputError(
            f"world: {documents} documents leave {max(clean, 0)} clean rows for"
            f" {repeats} duplicates and variants, and {len(leaks)} leaks: ask for"
            " more documents or smaller shares"
        )

    def fresh(count: int) -> Iterator[Row]:
        for _ in range(count):
            story = crowd.draw(random, settings.steps(), settings.nouns)
            yield Row(story, story.question)

    originals = []
    for row in fresh(clean):
        originals.append(row)
        if len(originals) % 1024 == 0:
            progress(0.8 * len(originals) / clean, "drawing stories")
    waiting = iter(originals)  # each clean row is repeated at most once: duplicates come in pairs
    rows = [*leaks, *originals]
    rows += [edited(random, row.story, "verbatim", "exact", row) for row in islice(waiting, exact)]
    rows += _near_duplicates(random, settings, waiting, near)
    for _ in range(variants):
        candidates = (vary_numbers(random, row, crowd) for row in waiting)
        rows.append(_first("variant in other numbers", candidates))
    _add_traces(random, rows, settings.traces)
    for number, row in enumerate(fresh(broken)):
        row.kind = "broken"
        row.edit = tuple(BROKEN)[number % len(BROKEN)]
        rows.append(row)
    for row in fresh(unclosed):
        row.kind = row.trace = "unclosed"
        rows.append(row)
    return shuffled(random, rows)


def _add_traces(random: Random, rows: Iterable[Row], share: float) -> None:
    for row in rows:
        if random.random() < share:
            row.trace = pick(random, tuple(TRACES))


def _near_duplicates(
    random: Random, settings: WorldSettings, waiting: Iterator[Row], count: int
) -> Iterator[Row]:
    for number in range(count):
        edit = settings.near_edits[number % len(settings.near_edits)]
        candidates = (repeat_nearly(random, row, edit) for row in waiting)
        yield _first(f"near duplicate ({edit})", candidates)


def _leaks(
    random: Random, settings: WorldSettings, problems: Mapping[str, Sequence[Story]]
) -> list[Row]:
    rows = []
    for name, drawn in problems.items():
        chosen = shuffled(random, range(len(drawn)))[: round(settings.leaked * len(drawn))]
        for number, item in enumerate(chosen):
            edit = settings.leak_edits[number % len(settings.leak_edits)]
            rows.append(edited(random, drawn[item], edit, "leak", f"{name}/{item}"))
    return rows


def _first(what: str, candidates: Iterable[Row | None]) -> Row:
    found = next((row for row in candidates if row is not None), None)
    if found is None:
        raise InputError(
            f"world: no clean row is left that could have a {what}: ask for smaller shares or more"
            " steps"
        )
    return found


def _truth(row: Row, numbers: Mapping[int, int]) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "row": numbers[id(row)],
        "kind": row.kind,
        "edit": row.edit,
        "of": row.of,
    }
    if isinstance(row.of, Row):
        entry["of"] = numbers[id(row.of)]
        entry["similarity"] = round(similarity(row, row.of), 3)
    return {**entry, "trace": row.trace}


# --- the files ---


def _write_lines(path: Path, lines: Iterable[Mapping[str, Any]]) -> None:
    """Write JSON lines, gzipped without a time or name if the path ends with .gz."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as raw:
        packed = gzip.GzipFile("", "wb", 6, raw, mtime=0) if path.suffix == ".gz" else None
        with io.TextIOWrapper(packed or raw, encoding="utf-8", newline="\n") as file:
            file.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
