"""Read what another study has measured of a variant, where the study file says `from`.

Its rows stand for a training only where everything that decides a comparison is equal: the packed
tokens, the tokenizer, what each benchmark asks, the tokens of a step, the length of a row, what the
loss is on, whether documents are kept apart, and how checkpoints are evaluated. A study writes
these down in `internal.study_inputs`, such as

    study_id        what                       value
    demo-a8a2fec4   training.batch_tokens      512
    demo-a8a2fec4   the packed tokens          5d1c9a...
    demo-a8a2fec4   the benchmark world_short  0f36e2...
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from dreamer_study.flows.atlas.bundled import PREFIX, results_file, world_of, worlds
from dreamer_study.flows.study.configuration import Study
from dreamer_study.flows.study.models_section import Variant
from dreamer_study.model.accounting import Resources
from dreamer_study.pipeline.errors import InputError, nearest, placing
from dreamer_study.pipeline.storage.digests import digest
from dreamer_study.sql.results import connect

RESULTS = "results.duckdb"
# Settings that are the same for all variants of a study.
OF_EVERY_TRAINING = ("batch_tokens", "loss_on", "documents")
OF_EVALUATIONS = ("limit", "max_new_tokens", "weights")


@dataclass(frozen=True)
class Origin:
    """A variant that another study has trained: where its rows are, and what they are of.

    `costs` are those of the model of each depth, `run_ids` name the complete trainings, `inputs`
    are the values of `internal.study_inputs`, and `digest` changes with any row of the study.
    """

    variant: str
    results: Path
    study_id: str
    code_version: str
    created_at: Any
    costs: Mapping[int, Resources]
    run_ids: tuple[str, ...]
    inputs: Mapping[str, str]
    digest: str

    @property
    def remark(self) -> str:
        """Say where the rows come from."""
        day = f"{self.created_at:%Y-%m-%d}" if self.created_at else "an unknown day"
        return (
            f"measured elsewhere: trained by the study {self.study_id} of {day}, with version"
            f" {self.code_version} of this program"
        )


def read_origins(study: Study) -> dict[str, Origin]:
    """Read the origins of all variants that other studies have trained, by variant."""
    return {variant.name: read_origin(study, variant) for variant in study.models.elsewhere}


def costs_elsewhere(study: Study) -> dict[str, Mapping[int, Resources]]:
    """Return what variants cost that other studies have trained, by variant and depth.

    Raises InputError, before any data is read, where they were trained under other settings.
    """
    origins = read_origins(study)
    settings = settings_as_inputs(study)
    for origin in origins.values():
        check_origin(origin, settings)
    return {name: origin.costs for name, origin in origins.items()}


def read_origin(study: Study, variant: Variant) -> Origin:
    """Read the origin of a variant of the study.

    Raises InputError where its results file is missing, does not hold the variant once, was made
    before inputs were written down, or lacks a depth of the study.
    """
    where = f"models.variants: {variant.name}: from {variant.origin}"
    path = _results_file(str(variant.origin), study.place, where)
    with closing(connect(path, read_only=True)) as connection:
        return _read(connection, path, variant.name, study.models.depths, where)


def _results_file(origin: str, place: Path, where: str) -> Path:
    """Find the results file that `from` names: of a folder or a path, or of a world of the atlas.

    `place` is the folder in which relative paths start.
    """
    path = place / Path(origin).expanduser()
    world = world_of(origin)
    if world is not None and (world in worlds() or not path.exists()):
        if path.exists():
            raise InputError(
                f"{where}: this is a world of the atlas, and {path} is there too; write"
                f" ./{origin} for the folder, or rename the folder for the atlas"
            )
        with placing(where):
            return results_file(world)
    if path.is_dir():
        path = path / RESULTS
    if not path.is_file():
        raise InputError(
            f"{where}: {path} does not exist; name a study's folder, a results file or a world of"
            f" the atlas ({', '.join(PREFIX + name for name in worlds()) or 'none yet'})"
        )
    return path


def _read(
    connection: duckdb.DuckDBPyConnection,
    path: Path,
    variant: str,
    depths: Sequence[int],
    where: str,
) -> Origin:
    models = connection.execute(
        "select study_id, variant, depth, parameters, flops_per_token, memory_bytes from models"
    ).fetchall()
    studies = sorted({study_id for study_id, name, *_ in models if name == variant})
    if not studies:
        names = sorted({name for _, name, *_ in models})
        rest = nearest(variant, names, f"; its variants are {', '.join(names)}")
        raise InputError(f"{where}: {path} has no variant of that name{rest}")
    if len(studies) > 1:
        raise InputError(
            f"{where}: {path} has that variant in {' and '.join(studies)}; name a results file with"
            " one of them (`dreamer publish` writes one)"
        )
    (study_id,) = studies
    costs = {
        depth: Resources(parameters, flops, memory)
        for _, name, depth, parameters, flops, memory in models
        if name == variant
    }
    for depth in depths:
        if depth not in costs:
            raise InputError(
                f"{where}: trained at depth {' and '.join(map(str, costs))}, and models.depths asks"
                f" for {depth}"
            )
    inputs = connection.execute(
        "select what, value from internal.study_inputs where study_id = ?", [study_id]
    ).fetchall()
    if not inputs:
        raise InputError(
            f"{where}: {path} does not say on which data the study was made, as files of versions"
            " before this one do not; `dreamer run` of that study again writes that down"
        )
    (made,) = connection.execute(
        "select code_version, created_at from studies where study_id = ?", [study_id]
    ).fetchall()
    runs = connection.execute(
        "select run_id from runs join models using (study_id, model_id) where study_id = ? and"
        " variant = ? and depth in (select unnest(?)) and status = 'complete' order by run_id",
        [study_id, variant, list(depths)],
    ).fetchall()
    if not runs:
        raise InputError(f"{where}: {path} has no complete training of that variant")
    entered = connection.execute(
        "select output, digest from ingested where study_id = ? order by output", [study_id]
    ).fetchall()
    return Origin(
        variant=variant,
        results=path,
        study_id=study_id,
        code_version=made[0],
        created_at=made[1],
        costs=costs,
        run_ids=tuple(run_id for (run_id,) in runs),
        inputs=dict(inputs),
        digest=digest(entered),
    )


def settings_as_inputs(study: Study) -> dict[str, str]:
    """Return the settings that decide how curves compare, by their keys in the study file."""
    recipe = study.training.recipe(0)
    settings = {f"training.{name}": recipe[name] for name in OF_EVERY_TRAINING}
    settings["training.sequence_length"] = study.training.sequence_length
    if study.training.branches:
        settings["training.branches"] = study.training.branches
    settings |= {f"evaluation.{name}": getattr(study.evaluation, name) for name in OF_EVALUATIONS}
    return {name: str(value) for name, value in settings.items()}


def differences(origin: Origin, inputs: Mapping[str, str]) -> list[str]:
    """List in what an origin differs from a study, of all that decides a comparison.

    `inputs` are those of the study; what the origin has measured beyond them is no difference.
    """
    found = []
    for what, here in inputs.items():
        value = origin.inputs.get(what)
        if value is None:
            found.append(f"{what} was not measured there")
        elif value != here and "." in what:  # a key of the study file
            found.append(f"{what} is {here} here and {value} there")
        elif value != here:
            found.append(f"{what} is another one")
    return found


def check_origin(origin: Origin, inputs: Mapping[str, str]) -> None:
    """Raise InputError with each reason why the rows of an origin cannot be compared.

    `inputs` are those of the study that are known yet: without data, its settings.
    """
    found = differences(origin, inputs)
    if found:
        raise InputError(
            f"models.variants: {origin.variant} was trained by {origin.study_id} under other"
            f" conditions, so that its curve cannot be compared: {'; '.join(found)}"
        )
