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

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
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
from dreamer_study.pipeline.storage.files import from_home
from dreamer_study.reports.text.numbers import listed
from dreamer_study.sql.connection import Damaged, one_line
from dreamer_study.sql.names import UNDER_WAY
from dreamer_study.sql.results import connect

RESULTS = "results.duckdb"
STUDY_FILES = (".yaml", ".yml")
ELSEWHERE = "measured elsewhere:"  # begins the remark that names an origin
# Settings that are the same for all variants of a study.
TRAINING_SETTINGS = ("batch_tokens", "loss_on", "documents")
EVALUATION_SETTINGS = ("limit", "max_new_tokens", "weights")
# Settings that are written down only where a study sets them.
WHERE_SET = ("training.branches", "models.counted_length")


@dataclass(frozen=True)
class Origin:
    """A variant that another study has trained: where its rows are, and what they are of.

    `study_id` is the study in whose results the rows are, `trained_by` the one that has trained the
    variant: another one, where those rows come from elsewhere too. `costs` are those of the model
    of each depth, `run_ids` name the complete trainings, `inputs` are the values of
    `internal.study_inputs`, and `digest` changes with any row of the study.
    """

    variant: str
    results: Path
    study_id: str
    trained_by: str
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
            f"{ELSEWHERE} trained by the study {self.trained_by} of {day}, with version"
            f" {self.code_version} of this program"
        )


def read_origins(study: Study) -> dict[str, Origin]:
    """Read the origins of all variants that other studies have trained, by variant.

    Raises InputError as `read_origin` does. Each results file is opened once.
    """
    by_origin: dict[str, list[Variant]] = {}
    for variant in study.models.elsewhere:
        by_origin.setdefault(str(variant.origin), []).append(variant)
    found = {}
    for variants in by_origin.values():
        path = _results_file(study, variants[0])
        with _opened(path, _where(variants[0])) as connection:
            for variant in variants:
                found[variant.name] = read_origin(connection, path, study, variant)
    return {variant.name: found[variant.name] for variant in study.models.elsewhere}


def costs_elsewhere(study: Study) -> dict[str, Mapping[int, Resources]]:
    """Return what variants cost that other studies have trained, by variant and depth.

    Raises InputError, before any data is read, where they were trained under other settings.
    """
    origins = read_origins(study)
    settings = settings_as_inputs(study)
    for origin in origins.values():
        check_origin(origin, settings)
    return {name: origin.costs for name, origin in origins.items()}


@contextmanager
def _opened(path: Path, where: str) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open the results file of another study.

    Raises InputError for a damaged file, without advice to remove or mend a file of somebody else.
    """
    broken = f"{where}: {path} is no results file of a study, or is damaged"
    advice = "copy the file again, or run its study again"
    try:
        connection = connect(path, read_only=True)
    except Damaged as error:
        raise InputError(f"{broken}; {advice}") from error
    except InputError as error:  # held by another process, empty, or of another version
        raise InputError(f"{where}: {error}") from None
    with closing(connection):
        try:
            yield connection
        except duckdb.Error as error:
            raise InputError(f"{broken} ({one_line(error)}); {advice}") from error


def _where(variant: Variant) -> str:
    """Say where in the study file a variant takes its rows from elsewhere."""
    return f"models.variants: {variant.name}: from {variant.origin}"


def _results_file(study: Study, variant: Variant) -> Path:
    """Find the results file that a variant's `from` names.

    Raises InputError where there is none, and for the study's own file.
    """
    where = _where(variant)
    path = _find_results_file(str(variant.origin), study.place, where)
    if path.resolve() == study.database.resolve():
        raise InputError(
            f"{where}: these are the results of this study itself; leave out `from`, and what is"
            " trained already is used again"
        )
    return path


def _find_results_file(origin: str, place: Path, where: str) -> Path:
    """Find the results file of a folder or a path, or of a world of the atlas.

    `place` is the folder in which relative paths start.
    """
    if Path(origin).suffix in STUDY_FILES:
        raise InputError(
            f"{where}: this is a study file; name the folder of its results, such as"
            f" runs/{Path(origin).stem}"
        )
    with placing(where):
        path = place / from_home(Path(origin))
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


def read_origin(
    connection: duckdb.DuckDBPyConnection, path: Path, study: Study, variant: Variant
) -> Origin:
    """Read the origin of a variant of the study from an open results file, whose path is given.

    Of several studies of a results file, the newest one that has the variant counts. Raises
    InputError where the file does not hold the variant, was made before inputs were written down,
    lacks a depth of the study, or where trainings of the variant have not ended.
    """
    where = _where(variant)
    study_id = _newest_study_with(connection, variant.name, path, where)
    costs = _costs(connection, study_id, variant.name)
    _check_depths(study, costs, where)
    inputs = _inputs(connection, study_id, path, where)
    run_ids = _complete_runs(connection, study_id, study, variant, path)
    trained_by, code_version, created_at = _trained_by(connection, study_id, variant.name)
    entered = connection.execute(
        "select output, digest from ingested where study_id = ? order by output", [study_id]
    ).fetchall()
    return Origin(
        variant=variant.name,
        results=path,
        study_id=study_id,
        trained_by=trained_by,
        code_version=code_version,
        created_at=created_at,
        costs=costs,
        run_ids=run_ids,
        inputs=inputs,
        digest=digest(entered),
    )


def _newest_study_with(
    connection: duckdb.DuckDBPyConnection, name: str, path: Path, where: str
) -> str:
    """Return the id of the newest study that has a variant of this name.

    Raises InputError where no study of the file has one.
    """
    newest = connection.execute(
        "select study_id from models join studies using (study_id) where variant = ?"
        " order by created_at desc nulls last, study_id",
        [name],
    ).fetchone()
    if newest is None:
        measured = connection.execute("select distinct variant from models").fetchall()
        names = sorted(variant for (variant,) in measured)
        rest = nearest(name, names, f"; its variants are {', '.join(names)}")
        raise InputError(f"{where}: {path} has no variant of that name{rest}")
    return str(newest[0])


def _costs(connection: duckdb.DuckDBPyConnection, study_id: str, name: str) -> dict[int, Resources]:
    """Return what a variant costs, by depth."""
    models = connection.execute(
        "select depth, parameters, flops_per_token, memory_bytes from models"
        " where study_id = ? and variant = ? order by depth",
        [study_id, name],
    ).fetchall()
    return {depth: Resources(*costs) for depth, *costs in models}


def _check_depths(study: Study, costs: Mapping[int, Resources], where: str) -> None:
    """Raise InputError where a variant lacks a depth of the study."""
    missing = [depth for depth in study.models.depths if depth not in costs]
    if missing:
        raise InputError(
            f"{where}: trained at depth {' and '.join(map(str, costs))}, and models.depths asks"
            f" for {' and '.join(map(str, missing))}"
        )


def _inputs(
    connection: duckdb.DuckDBPyConnection, study_id: str, path: Path, where: str
) -> dict[str, str]:
    """Return the rows of `internal.study_inputs` of a study: the value of each `what`.

    Raises InputError where the file was made before these rows were written.
    """
    inputs = connection.execute(
        "select what, value from internal.study_inputs where study_id = ?", [study_id]
    ).fetchall()
    if not inputs:
        raise InputError(
            f"{where}: {path} does not say on which data the study was made, as files of versions"
            " before this one do not; `dreamer run` of that study again writes that down"
        )
    return dict(inputs)


def _complete_runs(
    connection: duckdb.DuckDBPyConnection,
    study_id: str,
    study: Study,
    variant: Variant,
    path: Path,
) -> tuple[str, ...]:
    """Return the ids of a variant's complete runs, at the depths of the study.

    Raises InputError where no run is complete, or a run has not ended.
    """
    where = _where(variant)
    runs = connection.execute(
        "select run_id, status from runs join models using (study_id, model_id) where study_id = ?"
        " and variant = ? and depth in (select unnest(?)) order by run_id",
        [study_id, variant.name, list(study.models.depths)],
    ).fetchall()
    complete = [run_id for run_id, status in runs if status == "complete"]
    if any(status in UNDER_WAY for _, status in runs):
        raise InputError(
            f"{where}: {study_id} has not ended: {len(complete)} of {len(runs)} trainings of that"
            " variant are complete; `dreamer run` of that study completes them"
        )
    if not complete:
        raise InputError(f"{where}: {path} has no complete training of that variant")
    return tuple(complete)


def _trained_by(
    connection: duckdb.DuckDBPyConnection, study_id: str, variant: str
) -> tuple[str, str, Any]:
    """Return the study that has trained a variant, its version of this program, and its date.

    A study whose own rows of the variant come from elsewhere names the study that trained it.
    """
    named = connection.execute(
        "select origin, code_version, created_at from origins where study_id = ? and variant = ?",
        [study_id, variant],
    ).fetchone()
    own = connection.execute(
        "select study_id, code_version, created_at from studies where study_id = ?", [study_id]
    ).fetchone()
    return named or own


def settings_as_inputs(study: Study) -> dict[str, str]:
    """Return the settings that decide how curves compare, by their keys in the study file."""
    recipe = study.training.recipe(0)
    settings = {f"training.{name}": recipe[name] for name in TRAINING_SETTINGS}
    settings["training.sequence_length"] = study.training.sequence_length
    if study.training.branches:
        settings["training.branches"] = study.training.branches
    counted_length = study.models.counted_length
    if counted_length and counted_length != study.training.sequence_length:
        settings["models.counted_length"] = counted_length
    settings |= {
        f"evaluation.{name}": getattr(study.evaluation, name) for name in EVALUATION_SETTINGS
    }
    return {name: str(value) for name, value in settings.items()}


def differences(origin: Origin, inputs: Mapping[str, str]) -> list[str]:
    """List in what an origin differs from a study, of all that decides a comparison.

    `inputs` are those of the study. Benchmarks that the origin alone has asked are no difference.
    """
    found = []
    others = []  # of which digests alone are known
    for what, here in inputs.items():
        value = origin.inputs.get(what)
        if value is None and what in WHERE_SET:
            found.append(f"{what} is {here} here and not set there")
        elif value is None:
            found.append(f"{what} was not measured there")
        elif value != here and "." in what:  # a key of the study file
            found.append(f"{what} is {here} here and {value} there")
        elif value != here:
            others.append(what)
    if others:
        found.append(f"the two differ in {listed(others)}")
    only_there = [what for what in WHERE_SET if what in origin.inputs and what not in inputs]
    found += [f"{what} is not set here and {origin.inputs[what]} there" for what in only_there]
    return found


def check_origin(origin: Origin, inputs: Mapping[str, str]) -> None:
    """Raise InputError with each reason why the rows of an origin cannot be compared.

    `inputs` are those of the study that are known yet: without data, its settings.
    """
    found = differences(origin, inputs)
    if found:
        raise InputError(
            f"models.variants: {origin.variant} was trained by {origin.study_id} under other"
            f" conditions, so that its curve cannot be compared: {'; '.join(found)}. Set these as"
            " that study's file does, or leave out `from` to train the variant here"
        )
