"""Rows for the tests: entered by plain SQL as a user would, and with the scores of every item."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from dreamer_study.sql import results

PLACES = {"LA": 1, "DR": 2, "DR+DA": 3}  # LA is the baseline


def enter(
    sql, curves, *, study="s", depth=4, metric="exact_match", items=None, chance=None, seed=None
):
    """Enter curves {variant: {task: {tokens: accuracy}}}, one model and one run for each
    variant."""
    for variant, tasks in curves.items():
        run = f"{study}-{depth}-{variant}-{seed}"
        sql.execute(
            "insert or ignore into models (study_id, model_id, variant, depth, place) values (?, ?, ?, ?, ?)",
            [study, f"{variant}-{depth}", variant, depth, PLACES.get(variant)],
        )
        sql.execute(
            "insert into runs (run_id, study_id, model_id, seed) values (?, ?, ?, ?)",
            [run, study, f"{variant}-{depth}", seed],
        )
        rows = [
            (run, t, task, metric, v, items, chance)
            for task, curve in tasks.items()
            for t, v in curve.items()
        ]
        if rows:
            columns = "run_id, tokens, task, metric, value, items, chance"
            sql.executemany(
                f"insert into evaluations ({columns}) values (?, ?, ?, ?, ?, ?, ?)", rows
            )


def put(sql, table, rows):
    sql.register("rows", pd.DataFrame(rows))
    sql.execute(f"insert into {table} by name select * from rows")
    sql.unregister("rows")


class Crossing(NamedTuple):
    """A factor by the paper's rule: the baseline's best and its tokens, the variant's tokens, the
    factor, its bound."""

    goal: float | None
    goal_tokens: int | None
    tokens: float | None
    factor: float | None
    bound: str | None


def efficiency(sql, variant="DR", task="t", view="data_efficiency", depth=4, study="s"):
    """The one row of a model and task."""
    (row,) = sql.execute(
        f"select baseline_accuracy, baseline_tokens, variant_tokens, factor, bound from {view} "
        "where variant = ? and task = ? and study_id = ? and depth is not distinct from ?",
        [variant, task, study, depth],
    ).fetchall()
    return Crossing(*row)


def pair(sql, baseline, variant, **options):
    enter(sql, {"LA": {"t": baseline}, "DR": {"t": variant}}, **options)


def enter_scores(path, curves, *, study="s", seed=0, chance=None, item_ids=None):
    """Enter {variant: {task: {tokens: scores of the items}}} with every item, one run of depth 4
    for each variant."""
    tables = {"models": [], "runs": [], "evaluations": [], "items": []}
    for variant, tasks in curves.items():
        run = f"{study}-{variant}-{seed}"
        model = {
            "study_id": study,
            "model_id": variant,
            "variant": variant,
            "depth": 4,
            "place": PLACES.get(variant),
        }
        tables["models"].append(model)
        tables["runs"].append({"study_id": study, "run_id": run, "model_id": variant, "seed": seed})
        for task, checkpoints in tasks.items():
            for tokens, scores in checkpoints.items():
                place = {
                    "run_id": run,
                    "tokens": tokens,
                    "task": task,
                    "metric": "acc",
                    "filter": "none",
                }
                value = {"value": float(np.mean(scores)), "items": len(scores), "chance": chance}
                tables["evaluations"].append({**place, **value})
                names = (
                    [f"{task}/{n}" for n in range(len(scores))] if item_ids is None else item_ids
                )
                frame = pd.DataFrame(
                    {**place, "item_id": names, "value": np.asarray(scores, float)}
                )
                tables["items"].append(pa.Table.from_pandas(frame))
    items = tables.pop("items")
    entered = {name: pa.Table.from_pylist(rows) for name, rows in tables.items()}
    results.ingest(path, entered | {"items": pa.concat_tables(items)})


ITEM = {"run_id": "r", "tokens": 10, "task": "t", "metric": "acc", "filter": "none"}


def rows(*given):
    return pa.Table.from_pylist(list(given))


def items(count, value=1.0, **changed):
    return rows(
        *({**ITEM, "item_id": f"leaf/{n}", "value": value, **changed} for n in range(count))
    )


def count(path, table):
    return int(results.query(path, f"select count(*) as n from {table}")["n"][0])


def one_line(error):
    text = str(error.value)
    assert "\n" not in text
    return text
