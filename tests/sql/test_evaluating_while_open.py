"""Four evaluating processes whose results are entered while users hold the file open and some of them are killed."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import pandas as pd
import pytest
import yaml

from flows.jobs.local import LocalJobs
from flows.plan import Plan
from flows.rows import EVALUATION_TABLES
from flows.run import Options, Shown, run_study
from flows.study.loading import load_study
from sql import results
from tests.sql.empty import empty_file
from tests.sql.evaluated import finished
from tests.sql.processes import PROJECT, shell, start
from tests.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.slow
TINY = PROJECT / "tests" / "studies" / "tiny.yaml"
CHECKPOINTS = 40
BENCHMARKS = 4  # three of the world, and held-out documents; and what is observed of the models
EVALUATIONS = CHECKPOINTS * (BENCHMARKS + 1)

# Enters every benchmark of every checkpoint of an evaluation as it appears, until told that no more will: arguments are
# the results file, the output, a file that says so, and how long to wait for the results file.
ENTER = """
    import sys
    import time
    from pathlib import Path
    from flows.rows import EVALUATION_TABLES
    from pipeline.errors import InputError
    from sql import results
    from tests.sql.evaluated import finished

    results_file, output, last = map(Path, sys.argv[1:4])
    entered = set()
    while True:
        done = last.exists()
        for rows in sorted(finished(output).keys() - entered):
            files = {name: rows / f"{name}.parquet" for name in EVALUATION_TABLES}
            tables = {name: [file] for name, file in files.items() if file.exists()}
            try:
                results.ingest(results_file, tables, wait=float(sys.argv[4]))
            except InputError as error:
                sys.exit(str(error))
            entered.add(rows)
            print(rows, flush=True)
        if done:
            break
        time.sleep(0.05)
"""


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Writes a job, with an output of its own, for all checkpoints of a tiny study that has been trained."""
    root = tmp_path_factory.mktemp("study")
    content = yaml.safe_load(TINY.read_text())
    content["models"]["variants"] = ["LA", "DR+DA"]
    content["training"] |= {"tokens": 10_240, "checkpoints": CHECKPOINTS // 4, "screening": 0}
    plan = Plan(load_study({**content, "workers": 2}, root=root))
    with closing(LocalJobs(plan.study)) as jobs:
        run_study(plan, jobs, Shown(), Options(until="train"))
    asked = {
        "checkpoints": [
            {"run_id": run.run_id, "tokens": one.tokens, "path": str(one.folder.resolve())}
            for run in plan.runs
            for one in run.checkpoints
        ],
        "tokenizer": str(plan.data.tokenizer.path.resolve()),
        "tasks": [{**task, "yaml": None, "dataset_path": None} for task in plan.tasks],
        "observe": str(plan.data.packed.path.resolve()),
        "device": "cpu",
    }
    assert len(asked["checkpoints"]) == CHECKPOINTS

    def write(name: str) -> Path:
        path = root / f"{name}.json"
        path.write_text(json.dumps(asked | {"output": str(root / name)}))
        return path

    return write


def evaluator(job: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "model.evaluate", str(job)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, env=environment, cwd=PROJECT, stderr=subprocess.PIPE, text=True)


def killed(processes: list[subprocess.Popen[str]], moments: random.Random) -> None:
    """Kill one of the processes, whatever it is doing."""
    process = processes.pop(moments.randrange(len(processes)))
    process.kill()
    _, said = process.communicate()
    assert process.returncode == -9, said


def tables(path: Path, names: Sequence[str]) -> dict[str, pd.DataFrame]:
    return {name: results.query(path, f"from {name} order by all") for name in names}


def test_nothing_is_lost_or_doubled_whoever_is_killed_or_holds_the_file(tmp_path, job):
    calm, disturbed = (empty_file(tmp_path / f"{name}.duckdb") for name in ("calm", "disturbed"))
    quiet, path, last = job("quiet"), job("disturbed"), tmp_path / "last"
    output = path.with_suffix("")
    moments = random.Random(time.time_ns())
    done, pause = moments.randrange(1, EVALUATIONS // 2), moments.uniform(0, 1)
    print(f"killed after {done} evaluations, and {pause:.2f} s after a user came")

    evaluators = [evaluator(path) for _ in range(4)]
    enterers = [start(ENTER, disturbed, output, last, PATIENCE_SECONDS) for _ in range(2)]
    while len(finished(output)) < done:
        assert all(process.poll() is None for process in evaluators)
        time.sleep(0.01)
    killed(evaluators, moments)
    there = finished(output)
    assert 0 < len(there) < EVALUATIONS
    evaluators.append(evaluator(path))
    for mode in ("read-only", "read-write"):
        with shell(disturbed, mode) as user:
            refused = start(ENTER, disturbed, output, tmp_path, 0.3)
            _, said = refused.communicate()
            assert refused.returncode == 1
            assert said == (
                f"{disturbed}: in use by another process ({Path(sys.executable).resolve().name}, PID {user.pid}); "
                "close it there, or wait, and try again\n"
            )
            time.sleep(pause)
            killed(enterers, moments)
        enterers.append(start(ENTER, disturbed, output, last, PATIENCE_SECONDS))

    assert [(process.communicate()[1], process.returncode) for process in evaluators] == [("", 0)] * 4
    last.touch()
    assert [(process.communicate()[1], process.returncode) for process in enterers] == [("", 0)] * 2
    assert there.items() <= finished(output).items()  # what was done before the kill was not done again
    assert len(finished(output)) == EVALUATIONS

    assert evaluator(quiet).communicate()[1] == ""
    assert start(ENTER, calm, quiet.with_suffix(""), last, PATIENCE_SECONDS).communicate()[1] == ""
    names = [name for name in EVALUATION_TABLES if len(results.query(calm, f"from {name}"))]
    assert {"evaluations", "items", "evaluation_versions"} < set(names)
    expected, found = tables(calm, names), tables(disturbed, names)
    for name in names:
        pd.testing.assert_frame_equal(found[name], expected[name])
    rows = 3 * 2 + 1  # an accuracy and a loss of three benchmarks, the loss on held-out documents
    assert len(expected["evaluations"]) == CHECKPOINTS * rows
    assert len(results.query(disturbed, "from rows_entered_twice")) == 0
    assert results.query(disturbed, "select study_id from studies")["study_id"].tolist() == ["by hand"]
