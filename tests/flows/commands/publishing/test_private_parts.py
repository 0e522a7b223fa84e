"""What is published holds no place of the machine, and no answers that are not for everybody."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from dreamer_study.flows.commands.publishing.private_parts import (
    copy_public,
    copy_task,
    without_places,
    without_samples,
)
from dreamer_study.model.evaluation.trust import SAMPLES_LEFT_OUT
from dreamer_study.sql import results
from tests.sql.empty import empty_file

BUILT_IN = {"world_short": {}}


@pytest.fixture
def database(tmp_path: Path) -> Path:
    file = empty_file(tmp_path / "results.duckdb")
    examples = {"world_short": ["1 + 1?", "2"], "secret": ["Who?", "Ada"]}
    overrides = {"num_fewshot": 1, "fewshot_config": {"samples": [{"q": "Which shot?"}]}}
    config = {
        "examples": examples,
        "study": {"data": {"files": [str(tmp_path / "mine.jsonl")]}},
        "tasks": [{"name": "secret", "overrides": overrides}],
    }
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


@pytest.mark.slow
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
    assert (b"Which shot?" in target.read_bytes()) is answers


def test_texts_that_are_no_places_stay(tmp_path: Path) -> None:
    texts = ["/think", "a/b", "/nowhere/at/all", "/", "1/2", "/tmp\n/x"]
    assert without_places({"a": [*texts, f"{tmp_path}/b.txt"]}) == {"a": [*texts, "b.txt"]}


SHOTS = """
x: &shots [{question: "Which shot?", answer: This one}]
fewshot_config: {sampler: first_n, samples: %s}
task: mine  # asks: Which shot?
process_docs: !function own.rows
"""


@pytest.mark.parametrize(
    "samples",
    ["*shots", '[{question: "Which shot?"}]', "{a: {b: 'Which shot?'}}", "!function shots.few"],
)
def test_a_task_is_copied_without_its_few_shot_samples(tmp_path: Path, samples: str) -> None:
    text = SHOTS % samples
    if samples != "*shots":
        text = text.replace('"Which shot?", answer: This one', "a")
    texts = {"mine.yaml": text, "own.py": "def rows(): ...", "plain.yaml": "a: 1  # as it is"}
    if samples.startswith("!"):
        texts["shots.py"] = "def few(): return ['Which shot?']"
    files = {}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
        files[tmp_path / name] = tmp_path / "out" / name
    assert copy_task(files)
    copied = {path.name: path.read_text() for path in (tmp_path / "out").iterdir()}
    assert "Which shot?" not in str(copied)
    assert sorted(copied) == ["mine.yaml", "own.py", "plain.yaml"]
    assert copied["plain.yaml"] == texts["plain.yaml"]
    assert "!function" in copied["mine.yaml"]
    assert SAMPLES_LEFT_OUT in copied["mine.yaml"]


def test_a_task_without_samples_is_copied_byte_by_byte(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("task: mine  # of ours\n")
    assert not copy_task({file: tmp_path / "out.yaml"})
    assert (tmp_path / "out.yaml").read_bytes() == file.read_bytes()


def test_only_samples_of_few_shots_are_left_out() -> None:
    values = {"config": {"samples": 4}, "few": [{"fewshot_config": {"samples": [1], "split": "a"}}]}
    few = [{"fewshot_config": {"samples": [SAMPLES_LEFT_OUT], "split": "a"}}]
    assert without_samples(values) == {**values, "few": few}
