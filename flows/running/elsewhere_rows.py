"""Enter the rows of variants that other studies have trained (`from` in the study file).

The rows are copied from the results file of the study that has trained the variant, so that this
study's file is whole without that one. Their seconds stay behind: they are of another machine.
"""

from __future__ import annotations

import json
from contextlib import closing
from typing import Any

import duckdb
import pyarrow as pa

from dreamer_study.flows.plan.elsewhere import ELSEWHERE, Origin
from dreamer_study.flows.plan.study_plan import Plan
from dreamer_study.model.evaluation.job import INTROSPECTION
from dreamer_study.pipeline.storage.digests import canonical
from dreamer_study.sql.results import connect

# Tables of an evaluation's rows, by the columns that name the evaluation.
TABLES_OF_EVALUATIONS = (
    "evaluations",
    "raw_evaluations",
    "depth_evaluations",
    "items",
    "answers",
    "evaluation_versions",
)
TABLES_OF_CHECKPOINTS = ("depth_attention", "expert_usage")
TABLES_OF_RUNS = ("run_details", "steps", "checkpoints")
SECONDS = ("seconds", "tokens_per_second", "mfu")

Rows = dict[str, pa.Table]


def outputs_of_origins(plan: Plan) -> list[dict[str, Any]]:
    """List the outputs that come from other studies, as sql/ledger.py knows outputs."""
    outputs = []
    for origin in plan.origins.values():
        outputs += [
            {"output": f"runs/{run_id}", "run_id": run_id, "digest": origin.digest}
            for run_id in origin.run_ids
        ]
        outputs += [
            {
                "output": f"elsewhere/{claim['run_id']}/{claim['tokens']}/{claim['task']}",
                **claim,
                "digest": origin.digest,
            }
            for claim in claims_of_origin(plan, origin)
        ]
    return outputs


def claims_of_origin(plan: Plan, origin: Origin) -> list[dict[str, Any]]:
    """List the evaluations that a study takes from an origin: those of its own benchmarks."""
    with closing(connect(origin.results, read_only=True)) as connection:
        rows = _rows(
            connection,
            "select run_id, tokens, task from internal.claims where study_id = ? and run_id in"
            " (select unnest(?)) and task in (select unnest(?)) order by all",
            [origin.study_id, list(origin.run_ids), list(plan.decisive)],
        )
    return rows.to_pylist()


def searched_elsewhere(plan: Plan, origin: Origin, table: str) -> list[dict[str, Any]]:
    """List the trainings of an origin's search for settings: the rows of `tuning`, or of
    `tuning_settings`."""
    with closing(connect(origin.results, read_only=True)) as connection:
        rows = _rows(
            connection,
            f"select * exclude (study_id) from {table} where study_id = ? and variant = ? and depth"
            " in (select unnest(?)) order by all",
            [origin.study_id, origin.variant, list(plan.study.models.depths)],
        )
    return rows.to_pylist()


def rows_of_origin(plan: Plan, origin: Origin) -> Rows:
    """Read the rows of a variant by their tables, as rows of this study."""
    names = list(origin.run_ids)
    benchmarks = [name for name in plan.decisive if name != INTROSPECTION]
    with closing(connect(origin.results, read_only=True)) as connection:
        found = {
            "models": _models(plan, origin, connection),
            "runs": _rows(
                connection,
                "select * from runs where study_id = ? and run_id in (select unnest(?))",
                [origin.study_id, names],
            ),
        }
        for table in (*TABLES_OF_RUNS, *TABLES_OF_CHECKPOINTS):
            query = f"select * from {table} where run_id in (select unnest(?))"
            found[table] = _rows(connection, query, [names])
        for table in TABLES_OF_EVALUATIONS:
            query = (
                f"select * from {table} where run_id in (select unnest(?)) and task in"
                " (select unnest(?))"
            )
            found[table] = _rows(connection, query, [names, benchmarks])
        found["origins"] = _origins(plan, origin, found["runs"])
    found["runs"] = _of_study(found["runs"], plan.study.study_id)
    return {
        table: rows.drop_columns([name for name in SECONDS if name in rows.column_names])
        for table, rows in found.items()
        if rows.num_rows
    }


def _models(plan: Plan, origin: Origin, connection: duckdb.DuckDBPyConnection) -> pa.Table:
    """Read the rows of `models`, at the variant's place in this study."""
    rows = _rows(
        connection,
        "select * from models where study_id = ? and variant = ?",
        [origin.study_id, origin.variant],
    ).to_pylist()
    order = [variant.name for variant in plan.study.models.variants]
    for row in rows:
        row["study_id"] = plan.study.study_id
        row["place"] = order.index(origin.variant) + 1
        row["config"] = _with_remark(row["config"], origin.remark)
    return pa.Table.from_pylist([row for row in rows if row["depth"] in plan.study.models.depths])


def _with_remark(config: str, remark: str) -> str:
    values = json.loads(config)
    earlier = (values.get("remarks") or "").split("; ")
    # a variant that comes from elsewhere for the second time has the remark already
    own = [text for text in earlier if text and not text.startswith(ELSEWHERE)]
    return canonical({**values, "remarks": "; ".join([*own, remark])})


def _origins(plan: Plan, origin: Origin, runs: pa.Table) -> pa.Table:
    devices = sorted({device for device in runs["device"].to_pylist() if device})
    row = {
        "study_id": plan.study.study_id,
        "variant": origin.variant,
        "origin": origin.trained_by,
        "code_version": origin.code_version,
        "created_at": origin.created_at,
        "seeds": len(set(runs["seed"].to_pylist())),
        "devices": ", ".join(devices) or None,
    }
    return pa.Table.from_pylist([row])


def _of_study(rows: pa.Table, study_id: str) -> pa.Table:
    place = rows.schema.get_field_index("study_id")
    return rows.set_column(place, "study_id", pa.array([study_id] * rows.num_rows))


def _rows(connection: duckdb.DuckDBPyConnection, query: str, values: list[Any]) -> pa.Table:
    return connection.sql(query, params=values).to_arrow_table()
