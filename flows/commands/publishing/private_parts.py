"""Leave out of published results what is not for everybody: places of this machine, and answers.

Questions and right answers of a benchmark that stand on the web are in the training data of later
models, and many benchmarks are gated or may not be passed on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb

from dreamer_study.sql.export import copy_afresh

LEAST_PARTS = 3  # of a path that is not there: "/", a folder of this machine, a name
EXAMPLES = "examples"  # of `studies.config`: a question and its answer for each benchmark


def copy_public(
    database: Path, target: Path, built_in: Mapping[str, Any], *, answers: bool
) -> list[str]:
    """Copy a results file without places of this machine; returns the benchmarks left out.

    Without `answers` those of benchmarks that are not `built_in` are left out, and the questions.
    """
    with TemporaryDirectory(prefix=".dreamer-publish-", dir=target.parent) as folder:
        whole = Path(folder) / "results.duckdb"
        copy_afresh(database, whole)
        with closing(duckdb.connect(str(whole))) as connection:
            left_out = _leave_out(connection, set(built_in), answers=answers)
        copy_afresh(whole, target)  # a file holds deleted rows too
    return left_out


def _leave_out(
    connection: duckdb.DuckDBPyConnection, built_in: set[str], *, answers: bool
) -> list[str]:
    left_out: set[str] = set()
    if not answers:
        asked = connection.execute("select distinct task from answers").fetchall()
        left_out = {task for (task,) in asked} - built_in
        connection.execute("delete from answers where list_contains(?, task)", [sorted(left_out)])
    for study, text in connection.execute("select study_id, config from studies").fetchall():
        config = without_places(json.loads(text or "{}"))
        examples = config.get(EXAMPLES, {})
        if not answers and isinstance(examples, dict):
            left_out |= set(examples) - built_in
            config[EXAMPLES] = {name: examples[name] for name in examples if name in built_in}
        changed = json.dumps(config, ensure_ascii=False)
        connection.execute("update studies set config = ? where study_id = ?", [changed, study])
    return sorted(left_out)


def without_places(value: Any) -> Any:
    """Return JSON values with the mere names of files in place of absolute paths."""
    if isinstance(value, dict):
        return {name: without_places(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [without_places(inner) for inner in value]
    if isinstance(value, str) and _is_place(value):
        return Path(value).name
    return value


def _is_place(text: str) -> bool:
    """Tell whether a text is a path of this machine."""
    if not text.startswith("/") or "\n" in text:
        return False
    parts = Path(text).parts
    return len(parts) >= LEAST_PARTS and Path(*parts[:2]).is_dir()
