"""Write the built-in world: a seeded data set of small problems, with benchmarks, in the layout of a mirror.

Its training rows contain reasoning traces, duplicates, leaked benchmark items and broken rows on purpose; `truth.jsonl`
tells the kind of every row. The files do not depend on the folder, which may be moved.
"""

from __future__ import annotations

import gzip
import io
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import yaml

from pipeline.errors import InputError
from pipeline.progress import Progress, quiet
from pipeline.worlds.crowd import Crowd
from pipeline.worlds.planting import BROKEN, TRACES, Row, columns, edited, repeat_nearly, similarity, vary_numbers
from pipeline.worlds.problem import Problem, pick, shuffled
from pipeline.worlds.settings import WorldSettings
from pipeline.worlds.tasks import REPOSITORY, WORLD_BENCHMARKS, benchmark_row, card, data_file, task

WORLD_SOURCE = {
    "name": "world",
    "repository": REPOSITORY,
    "question": "question",
    "response": "response",
    "answer": "answer",
}
WORLD_LICENCE = "Apache-2.0"  # the project's own


def write_world(output: Path, settings: WorldSettings, *, progress: Progress = quiet) -> dict[str, Any]:
    """Write the world as a mirror under `output`; return {"rows", "truth": rows by kind, "traces", "items"}.

    `builtin/world/` is the data set in hub layout, `truth.jsonl` has a line for each training row (row, kind, edit, of,
    similarity, trace), `tasks/<task>.yaml` are the lm-eval tasks without `dataset_path`, `tasks/<task>.items.jsonl` the
    items for evaluation without lm-eval. Equal settings give equal content on every machine.
    """
    output = Path(output)
    folder = output / REPOSITORY
    problems = _benchmark_problems(settings)
    rows = _training_rows(settings, problems, progress)
    progress(0.8, "writing")
    (output / "tasks").mkdir(parents=True, exist_ok=True)

    random = Random(f"{settings.seed}/rows")
    _write_lines(folder / "default" / "train.jsonl.gz", (columns(random, row) for row in rows))
    random = Random(f"{settings.seed}/choices")
    for name, drawn in problems.items():
        both = [benchmark_row(name, number, random, problem) for number, problem in enumerate(drawn)]
        _write_lines(folder / data_file(WORLD_BENCHMARKS[name]), (row for row, _ in both))
        _write_lines(output / "tasks" / f"{name}.items.jsonl", (item for _, item in both))
        (output / "tasks" / f"{name}.yaml").write_text(yaml.safe_dump(task(name), sort_keys=False))
    (folder / "README.md").write_text(card(problems))

    progress(0.95, "writing the truth")
    numbers = {id(row): number for number, row in enumerate(rows)}
    _write_lines(output / "truth.jsonl", (_truth(row, numbers) for row in rows))
    progress(1.0, "written")
    return {
        "rows": len(rows),
        "truth": dict(sorted(Counter(row.kind for row in rows).items())),
        "traces": dict(sorted(Counter(row.trace for row in rows).items())),
        "items": {name: len(drawn) for name, drawn in problems.items()},
    }


# --- the rows ---


def _benchmark_problems(settings: WorldSettings) -> dict[str, list[Problem]]:
    """Draw the items of the benchmarks of the world's families, and the texts of the validation split."""
    crowd = Crowd()
    problems = {}
    for name, benchmark in WORLD_BENCHMARKS.items():
        if benchmark["family"] not in (None, *settings.families):
            continue
        random = Random(f"{settings.seed}/{name}")
        asked = [benchmark["family"]] if benchmark["family"] else settings.families
        families = [settings.family(family, benchmark["configuration"]) for family in asked]
        problems[name] = [crowd.draw(random, families[item % len(families)]) for item in range(settings.items)]
    return problems


def _training_rows(settings: WorldSettings, problems: Mapping[str, list[Problem]], progress: Progress) -> list[Row]:
    """Make all training rows in their final order."""
    random = Random(f"{settings.seed}/train")
    families = [settings.family(name) for name in settings.families]
    crowd = Crowd(problem for drawn in problems.values() for problem in drawn)
    leaks = _leaks(random, settings, problems)
    exact, near, variants, broken, unclosed = (
        round(settings.documents * getattr(settings, name))
        for name in ("exact_duplicates", "near_duplicates", "number_variants", "broken", "unclosed")
    )
    clean = settings.documents - len(leaks) - (exact + near + variants + broken + unclosed)
    if clean < 2 * (exact + near + variants):
        raise InputError(
            f"world: {settings.documents} documents leave {max(clean, 0)} clean rows for {exact + near + variants} "
            f"duplicates and variants, and {len(leaks)} leaks: ask for more documents or smaller shares"
        )

    def fresh(count: int) -> Iterator[Row]:
        for number in range(count):
            problem = crowd.draw(random, families[number % len(families)])
            yield Row(problem, problem.question)

    originals = []
    for row in fresh(clean):
        originals.append(row)
        if len(originals) % 1024 == 0:
            progress(0.8 * len(originals) / clean, "drawing problems")
    waiting = iter(originals)  # each clean row is repeated at most once: duplicates come in pairs
    rows = [*leaks, *originals]
    rows += [edited(random, row.problem, "verbatim", "exact", row) for row in islice(waiting, exact)]
    for number in range(near):
        edit = settings.near_edits[number % len(settings.near_edits)]
        rows.append(_first(f"near duplicate ({edit})", (repeat_nearly(random, row, edit) for row in waiting)))
    for _ in range(variants):
        rows.append(_first("variant in other numbers", (vary_numbers(random, row, crowd) for row in waiting)))
    for row in rows:
        if random.random() < settings.traces:
            row.trace = pick(random, tuple(TRACES))
    for number, row in enumerate(fresh(broken)):
        row.kind, row.edit = "broken", tuple(BROKEN)[number % len(BROKEN)]
        rows.append(row)
    for row in fresh(unclosed):
        row.kind = row.trace = "unclosed"
        rows.append(row)
    return shuffled(random, rows)


def _leaks(random: Random, settings: WorldSettings, problems: Mapping[str, list[Problem]]) -> list[Row]:
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
        raise InputError(f"world: no clean row is left that could have a {what}: ask for smaller shares or more steps")
    return found


def _truth(row: Row, numbers: Mapping[int, int]) -> dict[str, Any]:
    entry: dict[str, Any] = {"row": numbers[id(row)], "kind": row.kind, "edit": row.edit, "of": row.of}
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
