"""Write a world of the atlas from the results files of its studies.

Each study measured a family of architectures over the same data and beside the same baseline. The
rows of all complete variants are kept as Parquet, and the ratios to the baseline are computed once.
Items are kept of the accuracies alone: the losses of single items would be most of the bytes.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import yaml

from dreamer_study.flows.atlas.architectures import DESCRIBING, WITH_BESTS, describe
from dreamer_study.flows.atlas.bundled import ARCHITECTURES, LEFT_OUT, RATIOS, RECIPE, ROWS
from dreamer_study.flows.study.configuration import Study
from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.storage.digests import digest
from dreamer_study.sql.ingest import ingest
from dreamer_study.sql.results import ask, connect
from dreamer_study.sql.statistics.compute import compute_statistics

# The rows that are kept, by the columns that choose them.
TABLES_OF_STUDIES = ("studies", "study_inputs", "benchmark_levels")
TABLES_OF_VARIANTS = ("models", "tuning", "tuning_settings")
TABLES_OF_TRAININGS = ("runs", "claims")
TABLES_OF_RUNS = ("run_details", "checkpoints")
TABLES_OF_EVALUATIONS = ("evaluations", "evaluation_versions", "items")
# Entered once for a program, not for a study.
SHARED_TABLES = ("benchmarks",)
TOGETHER = "atlas"  # the study of all rows, of which the ratios are computed
# Sections of a study file that its variants do not decide.
SHARED_SECTIONS = ("data", "training", "evaluation")
MEASURED = ("average", "validation")  # besides the benchmarks

Tables = dict[str, pa.Table]


@dataclass(frozen=True)
class Family:
    """A study of the atlas: its id, its settings, its complete variants, and their rows."""

    study_id: str
    settings: Mapping[str, Any]
    variants: tuple[str, ...]
    unfinished: tuple[str, ...]
    inputs: Mapping[str, str]
    rows: Tables

    @property
    def baseline(self) -> str:
        """The variant that the others are compared with and matched to."""
        models = self.settings["models"]
        return models["baseline"] or models["variants"][0]["name"]


def collect(
    results: Sequence[Path],
    folder: Path,
    left_out: Sequence[Mapping[str, str]] = (),
    *,
    kept: Path | None = None,
) -> list[str]:
    """Write a world from results files, in the place of what the folder holds.

    `left_out` names architectures without a row, each with its `reason`. `kept` is a results file
    of the world as it is: its studies stay, but for those that are given anew. Returns remarks: on
    variants that are left out, as their trainings are not complete, and on studies whose own
    trainings of the baseline gave other scores than those that count. Raises InputError where
    studies differ in what decides how curves compare, trained different baselines, or share a
    variant.
    """
    families = [read_family(path) for path in results]
    if kept:
        given = {family.study_id for family in families}
        stay = [family for family in read_kept(kept) if family.study_id not in given]
        families = [*stay, *families]  # so the rows of the baseline stay too
    families = baseline_first(families)
    baseline = families[0].baseline
    _check(families, baseline)
    tables = join(families, baseline)
    with tempfile.TemporaryDirectory() as temporary:
        replicates = families[0].settings["evaluation"]["bootstrap_replicates"]
        database = Path(temporary) / "results.duckdb"
        ratios = compute_ratios(tables, baseline, database, replicates)
    frames = {name: tables[name].to_pandas() for name in DESCRIBING}
    architectures = describe(frames, baseline)
    _write(folder, tables, ratios, architectures, left_out, families[0])
    return [
        *(
            f"left out, as not complete: {name}"
            for family in families
            for name in family.unfinished
        ),
        *_other_scores(families, baseline),
    ]


def _other_scores(families: Sequence[Family], baseline: str) -> list[str]:
    """Say which studies have trained the baseline with other scores than the first one.

    A training gives slightly other scores on another machine, and its run id is the same there.
    """
    first, *others = families
    counted = _scores(first, baseline)
    return [
        f"{family.study_id}: its own trainings of {baseline} gave other scores, as those of another"
        f" machine may; its ratios are to {baseline} of {first.study_id}"
        for family in others
        if baseline in family.variants and _scores(family, baseline) != counted
    ]


def _scores(family: Family, variant: str) -> set[tuple[Any, ...]]:
    """Return the scores of a variant's runs, each with its run, tokens, task, metric and filter."""
    of_runs = pc.field("run_id").isin(sorted(_trained(family, variant)))
    rows = family.rows["evaluations"].filter(of_runs)
    names = ("run_id", "tokens", "task", "metric", "filter", "value")
    return {tuple(row[name] for name in names) for row in rows.to_pylist()}


def read_family(path: Path) -> Family:
    """Read the complete variants of a study from its results file, which holds no other study."""
    with closing(connect(path, read_only=True)) as connection:
        studies = connection.execute("select study_id, config from studies").fetchall()
        if len(studies) != 1:
            raise InputError(f"{path}: holds {len(studies)} studies; give a file of one")
        ((study_id, config),) = studies
        return _family(connection, study_id, config)


def read_kept(path: Path) -> list[Family]:
    """Read the studies of a world from the results file of its rows.

    Whatever is not in the rows, as the baseline of all studies but one, is not unfinished.
    """
    with closing(connect(path, read_only=True)) as connection:
        studies = connection.execute("select study_id, config from studies order by all").fetchall()
        return [replace(_family(connection, *study), unfinished=()) for study in studies]


def baseline_first(families: Sequence[Family]) -> list[Family]:
    """Sort studies: the rows of the baseline are taken from the first study that has trained it."""
    return sorted(families, key=lambda family: family.baseline not in family.variants)


def _family(connection: duckdb.DuckDBPyConnection, study_id: str, config: str) -> Family:
    settings = json.loads(config)["study"]
    counted = connection.execute(
        "select variant, count(*) from runs join models using (study_id, model_id)"
        " where status = 'complete' and study_id = ? group by all",
        [study_id],
    ).fetchall()
    complete = dict(counted)
    expected = {
        variant["name"]: len(variant["seeds"] or settings["training"]["seeds"])
        for variant in settings["models"]["variants"]
        if not variant["from"]
    }
    variants = tuple(name for name in expected if complete.get(name, 0) >= expected[name])
    inputs = connection.execute(
        "select what, value from internal.study_inputs where study_id = ?", [study_id]
    ).fetchall()
    return Family(
        study_id=study_id,
        settings=settings,
        variants=variants,
        unfinished=tuple(name for name in expected if name not in variants),
        inputs=dict(inputs),
        rows=_rows(connection, study_id, variants),
    )


def _rows(connection: duckdb.DuckDBPyConnection, study_id: str, variants: Sequence[str]) -> Tables:
    """Read the rows of some variants, as one frame for each table."""
    runs = [
        run_id
        for (run_id,) in connection.execute(
            "select run_id from runs join models using (study_id, model_id) where study_id = ?"
            " and variant in (select unnest(?)) and status = 'complete'",
            [study_id, list(variants)],
        ).fetchall()
    ]
    claimed = "(run_id, tokens, task) in (select run_id, tokens, task from internal.claims)"
    conditions = {
        **dict.fromkeys(TABLES_OF_STUDIES, ("study_id = ?", [study_id])),
        **dict.fromkeys(
            TABLES_OF_VARIANTS,
            ("study_id = ? and variant in (select unnest(?))", [study_id, variants]),
        ),
        **dict.fromkeys(
            TABLES_OF_TRAININGS, ("study_id = ? and run_id in (select unnest(?))", [study_id, runs])
        ),
        **dict.fromkeys(TABLES_OF_RUNS, ("run_id in (select unnest(?))", [runs])),
        **dict.fromkeys(
            TABLES_OF_EVALUATIONS, (f"run_id in (select unnest(?)) and {claimed}", [runs])
        ),
        **dict.fromkeys(SHARED_TABLES, ("task in (select task from benchmark_levels)", [])),
    }
    tables = {}
    for table, (condition, values) in conditions.items():
        if table == "items":
            condition += (
                " and (task, metric, filter) in (select task, metric, filter from chosen_metric"
                " where kind = 'accuracy')"
            )
        query = f"select * from {table} where {condition} order by all"
        tables[table] = connection.sql(query, params=list(values)).to_arrow_table()
    return tables


def _check(families: Sequence[Family], baseline: str) -> None:
    """Raise InputError where the studies of a world do not go together."""
    first, *others = families
    seen = dict.fromkeys(first.variants, first.study_id)
    if baseline not in first.variants:
        raise InputError(f"{first.study_id}: its baseline {baseline} is not complete")
    for family in others:
        what = sorted({*first.inputs, *family.inputs})
        unequal = [name for name in what if first.inputs.get(name) != family.inputs.get(name)]
        if unequal:
            raise InputError(
                f"{first.study_id} and {family.study_id} differ in {', '.join(unequal)}; the"
                " studies of a world share these"
            )
        if family.baseline != baseline or (
            baseline in family.variants and _trained(family, baseline) != _trained(first, baseline)
        ):
            raise InputError(
                f"{first.study_id} and {family.study_id} have not the same trainings of the"
                f" baseline {baseline}; give them one store"
            )
        for name in family.variants:
            if name in seen and name != baseline:
                raise InputError(f"{seen[name]} and {family.study_id} both have {name}; keep one")
            seen[name] = family.study_id


def _trained(family: Family, variant: str) -> set[str]:
    """Return the runs of a variant."""
    models = family.rows["models"].filter(pc.field("variant") == variant)
    runs = family.rows["runs"]
    return {
        row["run_id"]
        for row in runs.to_pylist()
        if row["model_id"] in models["model_id"].to_pylist()
    }


def join(families: Sequence[Family], baseline: str) -> Tables:
    """Join the rows of all studies; those of the baseline are the first study's."""
    parts: dict[str, list[pa.Table]] = {}
    for number, family in enumerate(families):
        again_trained = _trained(family, baseline) if number else set()
        for table, rows in family.rows.items():
            if "variant" in rows.column_names and number:
                rows = rows.filter(pc.field("variant") != baseline)
            if "run_id" in rows.column_names:
                again = pa.array(sorted(again_trained), pa.string())
                rows = rows.filter(~pc.field("run_id").isin(again))
            parts.setdefault(table, []).append(rows)
    tables = {table: pa.concat_tables(rows).unify_dictionaries() for table, rows in parts.items()}
    shared = tables["benchmarks"].to_pandas().drop_duplicates("task")
    tables["benchmarks"] = pa.Table.from_pandas(shared, preserve_index=False)
    tables["ingested"] = _ingested(families)
    return tables


def _ingested(families: Sequence[Family]) -> pa.Table:
    """Make the row by which a study that takes these rows hears that they have changed."""
    return pa.Table.from_pylist(
        [
            {
                "study_id": family.study_id,
                "output": "study",
                "rows": sum(rows.num_rows for rows in family.rows.values()),
                "digest": digest([str(rows.to_pydict()) for rows in family.rows.values()]),
            }
            for family in families
        ]
    )


def compute_ratios(tables: Tables, baseline: str, database: Path, replicates: int) -> pd.DataFrame:
    """Compute the ratios of all variants to the baseline, as those of one study."""
    write_together(tables, baseline, database)
    with closing(connect(database)) as connection:
        compute_statistics(connection, TOGETHER, replicates=replicates, baselines=[baseline])
    return ask(database, WITH_BESTS, study=TOGETHER)


def write_together(tables: Tables, baseline: str, database: Path) -> None:
    """Write the rows of all variants into a new results file, as those of the study `TOGETHER`."""
    together = {
        name: rows for name, rows in tables.items() if name not in (*SHARED_TABLES, "ingested")
    }
    for name, rows in together.items():
        if "study_id" in rows.column_names:
            place = rows.schema.get_field_index("study_id")
            values = pa.array([TOGETHER] * rows.num_rows, pa.string())
            together[name] = rows.set_column(place, "study_id", values)
    order = {row["variant"]: 0 for row in tables["models"].to_pylist()}
    places = list(range(1, len(order) + 1))
    models = together["models"]
    column = models.schema.get_field_index("place")
    together["models"] = models.set_column(column, "place", pa.array(places, pa.int32()))
    ingest(database, {**together, "benchmarks": tables["benchmarks"]})
    with closing(connect(database)) as connection:
        connection.execute("update studies set baseline = ?", [baseline])


def _recipe(family: Family) -> dict[str, Any]:
    """Return the settings that all studies of a world share, without those of one machine."""
    study = Study.model_validate(dict(family.settings))
    told = study.model_dump(mode="json", exclude_defaults=True)
    models = {
        "baseline": family.baseline,
        "depths": study.models.depths,
        "dreamer": study.models.dreamer,
    }
    if study.models.counted_length:
        models["counted_length"] = study.models.counted_length
    sections = {section: told[section] for section in SHARED_SECTIONS if section in told}
    return {"name": study.name, "models": models, **sections}


def _write(
    folder: Path,
    tables: Tables,
    ratios: pd.DataFrame,
    architectures: pd.DataFrame,
    left_out: Sequence[Mapping[str, str]],
    first: Family,
) -> None:
    """Write a world beside its place, and move it there."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".atlas-", dir=folder.parent) as temporary:
        made = Path(temporary) / folder.name
        (made / ROWS).mkdir(parents=True)
        for table, rows in tables.items():
            pq.write_table(
                rows,
                made / ROWS / f"{table}.parquet",
                compression="zstd",
                compression_level=19,
            )
        ratios.to_csv(made / RATIOS, index=False)
        architectures.to_csv(made / ARCHITECTURES, index=False)
        pd.DataFrame(left_out, columns=["variant", "reason"]).to_csv(made / LEFT_OUT, index=False)
        recipe = yaml.safe_dump(_recipe(first), sort_keys=False, width=100)
        (made / RECIPE).write_text(recipe, encoding="utf-8")
        shutil.rmtree(folder, ignore_errors=True)
        made.replace(folder)
