"""Read folders of result files of evaluation: lm-eval of every age, lighteval, Every Eval Ever.

Each file is recognised by what it holds, whatever its name. Samples of lm-eval beside its result
files are the items.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from dreamer_study.pipeline.errors import InputError, nearest
from dreamer_study.reports.curves.asked import Asked
from dreamer_study.reports.curves.forms import every_eval_ever, lighteval, lm_eval
from dreamer_study.reports.curves.kinds import LOSS, kind_of
from dreamer_study.reports.curves.patterns import (
    IN_STEPS,
    counted,
    fields_of_files,
    lacking,
    listed,
    number_of_tokens,
    tasks_left_out,
)
from dreamer_study.reports.curves.points import Curves, check_curves, missing_points
from dreamer_study.reports.curves.scores import ACCURACY, LISTED, Report, Score

# OLMo's `step1000-tokens4B` has tokens, Pythia's `step1000` has none.
TOKENS = re.compile(r"tokens?[-_]?(\d+(?:\.\d+)?[kKMBT])")
STEP = re.compile(r"(?:step|iteration|iter|checkpoint|ckpt)[-_]?(\d+)")
READERS = (every_eval_ever.read_report, lighteval.read_report, lm_eval.read_report)
POINT = ["variant", "seed", "tokens"]


@dataclass
class _Reading:
    """What was read so far: values by point, task, metric and filter; items by point and task."""

    values: dict[tuple, dict[str, Any]] = field(default_factory=dict)
    items: dict[tuple, list[dict[str, Any]]] = field(default_factory=dict)
    models: dict[tuple, tuple[str, Path]] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)
    unknown: dict[str, None] = field(default_factory=dict)
    of_tasks: dict[str, dict[str, None]] = field(default_factory=dict)  # their metrics
    tasks_taken: set[str] = field(default_factory=set)
    step_0: int = 0
    missing: int = 0
    in_steps: bool = False
    in_tokens: bool = False


def curves_of_results(folder: Path, files: Iterable[Path], asked: Asked) -> Curves:
    """Read every result file below a folder.

    Of a task that a point has twice, the newest file counts. `--pattern` begins the path of a
    file, and names its variant, its tokens or step, and (else 0) its seed, as far as the file does
    not say them itself. Raises InputError for a pattern that does not fit, for a score that is no
    share, and where two models or revisions would be one point.
    """
    size = asked.step_size()
    # Names have the time, so the newest file comes last.
    ordered = sorted(files, key=lambda file: (file.name, file))
    reports, others = _reports(ordered)
    if not reports:
        raise InputError(f"{folder}: holds no result file with a value of a task")
    fitting, notes = fields_of_files(folder, [report.file for report in reports], asked.pattern)
    fields_by_file = dict(fitting)
    reading = _Reading()
    for report in reports:
        if report.file in fields_by_file:
            point = _point(folder, report, fields_by_file[report.file], asked, size, reading)
            _take(reading, report, point, asked)
    if others:
        verb = "is no result file" if len(others) == 1 else "are no result files"
        notes.append(f"{counted(len(others), 'file')} {verb}: {listed([*map(str, others)], 3)}")
    return _curves(folder, reading, notes, asked, size)


def _reports(files: Sequence[Path]) -> tuple[list[Report], list[Path]]:
    """Read the files: those with results, and those that are something else."""
    reports = []
    others = []
    for file in files:
        try:
            content = json.loads(file.read_text())
        except (OSError, ValueError, RecursionError) as error:
            raise InputError(f"{file}: not a result file of lm-eval: {error!r}") from error
        found = None
        if isinstance(content, dict):
            readings = (read_report(file, content) for read_report in READERS)
            found = next((report for report in readings if report is not None), None)
        if found is not None:
            reports.append(found)
        elif file.name.startswith("results"):
            raise InputError(f"{file}: not a result file of lm-eval: it has no `results`")
        else:
            others.append(file)
    return reports, others


def _point(
    folder: Path,
    report: Report,
    of_path: dict[str, Any],
    asked: Asked,
    size: int | None,
    reading: _Reading,
) -> dict[str, Any]:
    """Return variant, seed and tokens of a file, by its path, then by what it says itself."""
    fields = {"seed": 0, **report.fields, **of_path}
    if "step" in of_path:
        fields.pop("tokens", None)
    model, _, revision = report.model.partition(", revision ")
    if "variant" not in fields and asked.pattern is None and model:
        fields["variant"] = model
    if not {"tokens", "step"} & {*fields}:
        tokens = TOKENS.search(revision)
        step = STEP.search(revision)
        if tokens:
            fields["tokens"] = number_of_tokens(tokens[1], str(report.file))
        elif step:
            fields["step"] = int(step[1])
    needed = [name for name in ("variant", "tokens") if name not in fields]
    if needed == ["tokens"] and "step" in fields:
        fields["tokens"] = fields.pop("step") * (size or 1)
        reading.in_steps = True
    elif needed:
        raise lacking(folder, asked.pattern, needed)
    else:
        reading.in_tokens = True
    return {name: fields[name] for name in POINT}


def _take(reading: _Reading, report: Report, point: dict[str, Any], asked: Asked) -> None:
    """Take the scores of a file, and its samples."""
    key = tuple(point.values())
    if not point["tokens"]:
        reading.step_0 += len(report.scores)
        return
    if report.model:
        before, file = reading.models.setdefault(key, (report.model, report.file))
        if before != report.model:
            raise InputError(
                f"{report.file}: {report.model!r}, and {file}: {before!r} would be one point:"
                f" variant {point['variant']}, seed {point['seed']}, at {point['tokens']:,};"
                " name what differs in --pattern"
            )
    for score in report.scores:
        kind = _kind_if_taken(score, asked)
        reading.of_tasks.setdefault(score.task, {})[score.metric] = None
        if kind is None:
            reading.unknown[f"{score.metric},{score.filter}"] = None
        elif math.isnan(score.value):
            reading.missing += 1
        else:
            _check(report.file, score, kind)
            if score.metric not in LISTED:
                reading.kinds[score.metric] = kind
            reading.tasks_taken.add(score.task)
            row = {name: value for name, value in asdict(score).items() if name != "kind"}
            reading.values[(*key, score.task, score.metric, score.filter)] = point | row
    for task, rows in lm_eval.samples_of(report.file):
        reading.items[(*key, task)] = [point | row for row in rows]


def _kind_if_taken(score: Score, asked: Asked) -> str | None:
    """Return the kind of a score; None where it is unknown, or another metric is asked for."""
    if asked.metric is None:
        return score.kind
    metric, _, filter = asked.metric.partition(",")
    if score.metric != metric or (filter and score.filter != filter):
        return None
    return score.kind or (LOSS if kind_of(metric) == LOSS else ACCURACY)


def _check(file: Path, score: Score, kind: str) -> None:
    """Raise InputError for an accuracy that is no share, and for a loss that is no number."""
    if kind == ACCURACY and not 0 <= score.value <= 1:
        hint = "; is it percent?" if 1 < score.value <= 100 else ""
        raise InputError(
            f"{file}: {score.task}: {score.metric} {score.value} is no share between 0 and 1{hint}"
        )
    if math.isinf(score.value):
        raise InputError(f"{file}: {score.task}: {score.metric} {score.value} is no number")


def _curves(
    folder: Path, reading: _Reading, notes: list[str], asked: Asked, size: int | None
) -> Curves:
    """Make curves of all values."""
    if not reading.values and asked.metric is not None:
        raise InputError(
            f"{folder}: no value of --metric {asked.metric}"
            f"{nearest(asked.metric, reading.unknown)}; there are {listed([*reading.unknown])}"
        )
    if not reading.values:
        raise InputError(
            f"{folder}: holds no result file with a value of a task in a metric that is known;"
            f" there are {listed([*reading.unknown])}; --metric NAME takes one"
        )
    is_in_steps = reading.in_steps and size is None
    if is_in_steps and reading.in_tokens:
        raise InputError(f"{folder}: some files have tokens, others only steps")
    if is_in_steps:
        notes.append(IN_STEPS)
    if reading.step_0:
        notes.append(
            f"{counted(reading.step_0, 'value')} before training (step 0) left out: they have no"
            " place on a logarithmic axis"
        )
    notes += tasks_left_out(reading.of_tasks, reading.tasks_taken, asked.metric)
    if reading.missing:
        notes.append(f"{counted(reading.missing, 'value')} NaN, which is no point")
    frame = pd.DataFrame(reading.values.values()).sort_values(POINT, kind="stable")
    check_curves(frame, str(folder), lambda position: str(folder))
    samples = [row for rows in reading.items.values() for row in rows]
    ignored = [] if asked.metric else [*reading.unknown]
    return Curves(
        points=frame,
        items=pd.DataFrame(samples) if samples else None,
        ignored=ignored,
        notes=[*notes, *missing_points(frame)],
        unit="steps" if is_in_steps else "tokens",
        kinds=reading.kinds,
    )
