"""Read the event files that TensorBoard reads, by TensorBoard's own reader."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dreamer_study.pipeline.errors import InputError
from dreamer_study.reports.curves.asked import Asked
from dreamer_study.reports.curves.columns import name_columns
from dreamer_study.reports.curves.kinds import is_of_training, kind_of
from dreamer_study.reports.curves.patterns import fields_of_files, lacking
from dreamer_study.reports.curves.rows import Found, Rows

NAME = "tfevents"


def rows_of_events(folder: Path, files: Iterable[Path], asked: Asked) -> Rows:
    """Read the scalars of evaluations of every run, whose variant is in its path."""
    if asked.pattern is None or "{variant}" not in asked.pattern:
        raise lacking(folder, asked.pattern, ["variant"])
    # In the order of their names, which have the time: the later file of a resumed run counts.
    fitting, notes = fields_of_files(folder, sorted(files), asked.pattern)
    found = Found([file for file, _ in fitting])
    ignored: dict[str, None] = {}
    scalars = [_scalars(file) for file, _ in fitting]
    tags = {tag for values in scalars for tag in values}
    known = {tag for tag in tags if kind_of(tag)}
    tested = {tag for tag in known if not is_of_training(tag)}
    chosen = {asked.metric} & tags if asked.metric else tested or known
    for number, (_, fields) in enumerate(fitting):
        for tag, points in scalars[number].items():
            if tag not in chosen:
                ignored[tag] = None
                continue
            for row, (step, value) in enumerate(points):
                found.add(number, row, {"step": step, "task": tag, "value": value} | fields)
    if not found.records:
        raise InputError(f"{folder}: no tag of a score or loss; there are {', '.join(ignored)}")
    rows = found.rows(*notes, ignored=[*ignored])
    return name_columns(rows, asked, ("variant", "seed", "tokens", "task"), run_pattern=None)


def _scalars(file: Path) -> dict[str, list[tuple[int, float]]]:
    """Return the steps and values of each tag of a file, as they were written."""
    try:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
        from tensorboard.util import tensor_util
    except ImportError:
        raise InputError(
            f"{file}: an event file of TensorBoard needs the extra `tensorboard`:"
            " pip install 'dreamer-study[tensorboard]'"
        ) from None
    # 0 keeps every event; what a restart overwrites is to be said, so nothing is purged here
    sizes: dict[str, Any] = {"scalars": 0, "tensors": 0}
    events = EventAccumulator(str(file), size_guidance=sizes, purge_orphaned_data=False)
    try:
        events.Reload()
    except Exception as error:
        raise InputError(f"{file}: cannot be read: {' '.join(str(error).split())}") from error
    tags = events.Tags()
    found: dict[str, list[tuple[int, float]]] = {}
    for tag in tags["scalars"]:
        found[tag] = [(event.step, event.value) for event in events.Scalars(tag)]
    for tag in tags["tensors"]:
        values = [
            (event.step, tensor_util.make_ndarray(event.tensor_proto))
            for event in events.Tensors(tag)
        ]
        if all(value.ndim == 0 and value.dtype.kind == "f" for _, value in values):
            found[tag] = [(step, float(value)) for step, value in values]
    return found
