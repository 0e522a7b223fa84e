"""Real processes on one results file: several that ingest, users who hold it open, and kills at any moment."""

from __future__ import annotations

import random
import time
from pathlib import Path

import duckdb
import pytest

from sql import results
from tests.sql.empty import empty_file
from tests.sql.processes import shell, start
from tests.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.slow
ITEMS = 2000

# Enters one checkpoint after another, as evaluation does, and says so when each is in: arguments are the file, the run,
# how many checkpoints, and how long to wait for the file.
ENTER = """
    import sys
    import pyarrow as pa
    from pipeline.errors import InputError
    from sql import results

    file, run, checkpoints, wait = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
    for tokens in range(1, checkpoints + 1):
        place = {"run_id": run, "tokens": tokens, "task": "t", "metric": "acc", "filter": "none"}
        items = pa.table({
            **{name: [value] * ITEMS for name, value in place.items()},
            "item_id": [f"t/{n}" for n in range(ITEMS)],
            "value": [1.0] * ITEMS,
        })
        evaluation = pa.Table.from_pylist([{**place, "value": 1.0, "items": ITEMS}])
        try:
            results.ingest(file, {"items": items, "evaluations": evaluation}, wait=wait)
        except InputError as error:
            sys.exit(str(error))
        print(tokens, flush=True)
""".replace("ITEMS", str(ITEMS))


def entered(path: Path) -> dict[str, list[int]]:
    """By run the checkpoints that are there, each with its evaluation and all its items once."""
    asked = """
        select run_id, tokens, evaluations.items, count(*), count(distinct item_id)
        from items full join evaluations using (run_id, tokens, task, metric, filter)
        group by all order by all
    """
    found: dict[str, list[int]] = {}
    for run_id, tokens, *counts in results.query(path, asked).itertuples(index=False):
        assert counts == [ITEMS, ITEMS, ITEMS], (run_id, tokens, counts)
        found.setdefault(run_id, []).append(tokens)
    return found


@pytest.fixture
def path(tmp_path):
    return empty_file(tmp_path / "results.duckdb")


def test_four_processes_enter_everything_while_users_open_the_file(path):
    writers = [start(ENTER, path, run, 8, PATIENCE_SECONDS) for run in "abcd"]
    for mode in ("read-only", "read-write"):
        with shell(path, mode):
            time.sleep(1)
    for process in writers:
        _, said = process.communicate()
        assert (process.returncode, said) == (0, "")
    assert entered(path) == {run: list(range(1, 9)) for run in "abcd"}
    assert results.query(path, "select study_id from studies")["study_id"].tolist() == ["by hand"]


def test_kills_at_any_moment_lose_and_duplicate_nothing(path):
    random.seed(0)
    for _ in range(4):
        process = start(ENTER, path, "r", 1000, PATIENCE_SECONDS)
        acknowledged = int(process.stdout.readline())
        time.sleep(random.uniform(0, 0.5))
        process.kill()
        output, _ = process.communicate()
        acknowledged = max([acknowledged, *map(int, output.split())])
        with duckdb.connect(str(path)) as connection:  # a user's own shell opens it, too
            assert connection.execute("select count(*) from items").fetchall()[0][0] >= acknowledged * ITEMS
        checkpoints = entered(path)["r"]
        assert checkpoints == list(range(1, len(checkpoints) + 1))
        assert len(checkpoints) >= acknowledged
