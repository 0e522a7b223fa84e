"""What is published holds no place of the machine, and no answers that are not for everybody."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from dreamer_study.flows.commands.publishing.private_parts import copy_public, without_places
from dreamer_study.sql import results
from tests.sql.empty import empty_file

BUILT_IN = {"world_short": {}}


@pytest.fixture
def database(tmp_path: Path) -> Path:
    file = empty_file(tmp_path / "results.duckdb")
    examples = {"world_short": ["1 + 1?", "2"], "secret": ["Who?", "Ada"]}
    config = {"examples": examples, "study": {"data": {"files": [str(tmp_path / "mine.jsonl")]}}}
    answer = {"run_id": "r", "tokens": 1, "item_id": "secret/0", "text": "Bob", "gold": "Ada"}
    rows = [{**answer, "task": task} for task in ("world_short", "secret")]
    results.ingest(
        file,
        {
            "studies": pa.Table.from_pylist([{"study_id": "s", "config": json.dumps(config)}]),
            "runs": pa.Table.from_pylist([{"study_id": "s", "run_id": "r", "model_id": "m"}]),
            "answers": pa.Table.from_pylist(rows),
        },
    )
    return file


@pytest.mark.parametrize(("answers", "tasks"), [(False, 1), (True, 2)])
def test_answers_of_other_benchmarks_are_published_where_asked_for(
    database: Path, tmp_path: Path, *, answers: bool, tasks: int
) -> None:
    target = tmp_path / "published.duckdb"
    left_out = copy_public(database, target, BUILT_IN, answers=answers)
    assert left_out == ([] if answers else ["secret"])
    with closing(duckdb.connect(str(target), read_only=True)) as connection:
        asked = connection.execute("select task from answers").fetchall()
        (text,) = connection.execute("select config from studies").fetchone() or ("",)
    assert len(asked) == len(json.loads(text)["examples"]) == tasks
    assert str(tmp_path) not in text
    assert "mine.jsonl" in text
    assert (b"Who?" in target.read_bytes()) is answers


def test_texts_that_are_no_places_stay(tmp_path: Path) -> None:
    texts = ["/think", "a/b", "/nowhere/at/all", "/", "1/2", "/tmp\n/x"]
    assert without_places({"a": [*texts, f"{tmp_path}/b.txt"]}) == {"a": [*texts, "b.txt"]}
