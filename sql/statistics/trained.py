"""Read how studies were trained and what they ask, and say how two of them differ.

Used where finished studies are joined: on other data (corpora.py), or of other sizes (sizes.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from dreamer_study.pipeline.errors import InputError
from dreamer_study.sql.connection import connect
from dreamer_study.sql.results import ask
from dreamer_study.sql.statistics.comparability import Asked, read_asked

VALIDATION = "validation"
INTROSPECTION = "introspection"  # what is observed of a model; nothing is asked
TOKENIZER = "the tokenizer"
PACKED = "the packed tokens"
BENCHMARK = "the benchmark "
# Settings of a recipe that a study may search by itself, and of the machine that trained.
SEARCHED = ("learning_rate", "weight_decay", "schedule")
OF_THE_MACHINE = ("device", "raw_checkpoints")

ModelKey = tuple[int | None, str]  # depth, variant


@dataclass(frozen=True)
class Trained:
    """How a study trained a model: its sizes, its recipe, and whether it searched for settings."""

    config: Mapping[str, Any]
    recipe: Mapping[str, Any]
    searched: bool


@dataclass(frozen=True)
class TrainedStudy:
    """A study of the comparison: where it is, its name in tables, and all that must be equal."""

    path: Path
    study_id: str
    name: str
    inputs: Mapping[str, str]
    asked: Asked
    held_out: frozenset[str]  # digests of the held-out documents
    models: Mapping[ModelKey, Trained]

    @property
    def benchmarks(self) -> list[str]:
        """The names of the benchmarks that the study asks."""
        names = [what.removeprefix(BENCHMARK) for what in self.inputs if what.startswith(BENCHMARK)]
        return [name for name in names if name not in (VALIDATION, INTROSPECTION)]


def read_trained(path: Path, study_id: str) -> TrainedStudy:
    """Read a study of a results file; without inputs where the file does not say them."""
    with closing(connect(path, read_only=True)) as connection:
        inputs = dict(
            connection.execute(
                "select what, value from internal.study_inputs where study_id = ?", [study_id]
            ).fetchall()
        )
        names = connection.execute(
            "select name from studies where study_id = ?", [study_id]
        ).fetchall()
        versions = connection.execute(
            "select distinct data_version from internal.evaluation_versions"
            " join internal.model_runs using (run_id) where study_id = ? and task = ?",
            [study_id, VALIDATION],
        ).fetchall()
        asked = read_asked(connection, study_id)
    rows = ask(path, "corpora_recipes", study=study_id).to_dict("records")
    return TrainedStudy(
        path=path,
        study_id=study_id,
        name=names[0][0] if names else study_id,
        inputs=inputs,
        asked=asked,
        held_out=frozenset(version for (version,) in versions if version),
        models={(_depth(row["depth"]), row["variant"]): _trained(row) for row in rows},
    )


def _depth(value: Any) -> int | None:
    return None if pd.isna(value) else int(value)


def _trained(row: Mapping[str, Any]) -> Trained:
    recipe = json.loads(row["recipe"]) if isinstance(row["recipe"], str) else {}
    return Trained(
        config=json.loads(row["config"]) if isinstance(row["config"], str) else {},
        recipe={name: value for name, value in recipe.items() if name not in OF_THE_MACHINE},
        searched=bool(row["searched"]),
    )


def named(studies: Sequence[TrainedStudy]) -> list[TrainedStudy]:
    """Give studies of one name their ids as names.

    Raises InputError for a study that is named twice.
    """
    ids = [study.study_id for study in studies]
    for study in studies:
        if ids.count(study.study_id) > 1:
            raise InputError(f"{study.study_id} is named twice; name every study once")
    names = [study.name for study in studies]
    return [
        study if names.count(study.name) == 1 else _with_name(study, study.study_id)
        for study in studies
    ]


def _with_name(study: TrainedStudy, name: str) -> TrainedStudy:
    return TrainedStudy(**{**vars(study), "name": name})


def same_held_out(first: TrainedStudy, other: TrainedStudy) -> bool:
    """Tell whether the held-out losses of two studies are on the same documents."""
    return first.held_out == other.held_out and len(first.held_out) == 1


def other_settings(first: TrainedStudy, other: TrainedStudy) -> Iterator[str]:
    """Say which settings of every training differ."""
    for what, value in first.inputs.items():
        there = other.inputs.get(what)
        if what.startswith("training.") and there != value:
            yield f"{what} is {there} in place of {value}"


def other_recipes(first: TrainedStudy, other: TrainedStudy) -> Iterator[str]:
    """Say how models or recipes differ; searched settings aside, where both studies searched."""
    for model, here in first.models.items():
        there = other.models.get(model)
        if there is None:
            continue
        both_searched = here.searched and there.searched
        ignored = SEARCHED if both_searched else ()
        for name, value, value_there in differing(here.recipe, there.recipe):
            if f"training.{name}" not in first.inputs and name not in ignored:
                yield f"{model_name(model)} has {name} {value_there} in place of {value}"
        for name, value, value_there in differing(here.config, there.config):
            yield f"{model_name(model)} has {name} {value_there} in place of {value}"


def searched_apart(first: TrainedStudy, other: TrainedStudy) -> Iterator[str]:
    """Say which settings differ because each study searched for its own."""
    for model, here in first.models.items():
        there = other.models.get(model)
        if there is None or not (here.searched and there.searched):
            continue
        for name, value, value_there in differing(here.recipe, there.recipe):
            if name in SEARCHED:
                yield (
                    f"each study searched for its settings: {model_name(model)} has {name}"
                    f" {value} in {first.name}, {value_there} in {other.name}"
                )


def differing(
    first: Mapping[str, Any], second: Mapping[str, Any]
) -> Iterator[tuple[str, Any, Any]]:
    """Return the names whose values differ, with both values; None where a side has none."""
    for name in sorted({*first, *second}):
        if first.get(name) != second.get(name):
            yield name, first.get(name), second.get(name)


def model_name(model: ModelKey) -> str:
    """Name a model: `DR of depth 4`."""
    depth, variant = model
    return variant if depth is None else f"{variant} of depth {depth}"
