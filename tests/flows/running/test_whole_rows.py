"""Rows of results are made of what was written: a store's file that has changed since is a line,
or is not read."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dreamer_study.flows.plan.study_plan import Plan
from dreamer_study.flows.running.result_rows import enter_runs, enter_study
from dreamer_study.pipeline.errors import InputError
from tests.flows.by_hand import ONE, Planned, train

pytestmark = pytest.mark.slow


def rewrite(path: Path, content: bytes) -> None:
    """Change a file as a bad disk does, which keeps size and time."""
    before = path.stat()
    path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def enter_again(plan: Plan) -> dict[str, Any]:
    """Make the results anew, as where they were lost; returns the values that files decide."""
    plan.study.database.unlink(missing_ok=True)
    plan = Plan(plan.study)
    enter_study(plan)
    enter_runs(plan)
    with closing(duckdb.connect(str(plan.study.database), read_only=True)) as connection:

        def ask(query: str) -> Any:
            return connection.execute(query).fetchall()

        return {
            "trivial": ask("select task, trivial from benchmarks where trivial > 0 order by all"),
            "examples": json.loads(ask("select config from studies")[0][0])["examples"],
            "devices": ask("select devices from internal.run_details"),
        }


@pytest.fixture
def plan(prepared: Planned) -> Plan:
    """A study of one run that is trained by hand."""
    made = prepared(**ONE)
    for run in made.runs:
        train(run)
    return made


def other_level(text: str) -> str:
    """Change one digit of the first level of the best trivial rule."""
    return re.sub(r'("trivial": 0\.)\d', lambda found: f"{found[1]}9", text, count=1)


@pytest.mark.parametrize(
    "change", [other_level, lambda text: text.replace('"trivial"', '"trivial!', 1), lambda _: "[]"]
)
def test_levels_of_the_world_that_have_changed_are_a_line(
    plan: Plan, change: Callable[[str], str]
) -> None:
    before = enter_again(plan)
    assert before["trivial"]
    path = plan.data.world.path / "tasks" / "levels.json"
    text = path.read_text()
    changed = change(text)
    assert changed != text
    rewrite(path, changed.encode())
    with pytest.raises(InputError, match="has other content than when it was written") as raised:
        enter_again(plan)
    assert str(path) in str(raised.value)
    assert "verify STUDY --repair" in str(raised.value)
    rewrite(path, text.encode())
    assert enter_again(plan) == before


def other_question(path: Path) -> None:
    """Change the questions and keep a file that Parquet reads."""
    table = pq.read_table(path)
    questions = pa.array([f"other {text}" for text in table["question"].to_pylist()], pa.string())
    place = table.column_names.index("question")
    pq.write_table(table.set_column(place, "question", questions), path, compression="zstd")


def one_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    rewrite(path, bytes(content))


@pytest.mark.parametrize("change", [other_question, one_bit])
def test_items_that_have_changed_are_a_line(plan: Plan, change: Callable[[Path], None]) -> None:
    before = enter_again(plan)
    assert set(before["examples"]) >= {"world_short", "world_choice"}
    path = plan.data.items.path / "items.parquet"
    kept = shutil.copy(path, path.with_suffix(".kept"))
    change(path)
    with pytest.raises(InputError, match=r"has (other content|[\d,]+ bytes, not)") as raised:
        enter_again(plan)
    assert str(path) in str(raised.value)
    os.replace(kept, path)
    assert enter_again(plan) == before


def test_the_devices_of_a_run_are_those_of_its_state(plan: Plan) -> None:
    before = enter_again(plan)
    assert before["devices"] == [(2,)]
    (run,) = plan.runs
    progress = run.folder / "progress.json"
    rewrite(progress, json.dumps({**json.loads(progress.read_text()), "ranks": 6}).encode())
    assert enter_again(plan) == before
    (values,) = run.folder.glob("state/*/values.json")
    rewrite(values, values.read_bytes().replace(b'"ranks": 2', b'"ranks": 6'))
    with pytest.raises(InputError, match="is damaged") as raised:
        enter_again(plan)
    assert str(values) in str(raised.value)
