"""`--json`: one document on standard output, whose fields the page of the command lists."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dreamer_study.flows.commands.cli import main
from dreamer_study.flows.commands.documents import plain
from dreamer_study.flows.plan.study_plan import Plan
from dreamer_study.flows.progress.status_file import recorded
from dreamer_study.flows.progress.study_lock import only_run
from dreamer_study.flows.study.loading import load_study
from tests.flows.by_hand import study_file, train
from tests.flows.commands.results.test_factors import curves_in
from tests.flows.commands.store.test_verify import flip
from tests.flows.small_study import PROJECT
from tests.reports.small_results import entered, trained

PAGE = (PROJECT / "docs" / "command.md").read_text()


def documented(command: str) -> set[str]:
    """Return the fields that the page lists for a command."""
    section = PAGE.partition(f"### `dreamer {command} --json`")[2].partition("\n#")[0]
    first_cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return {name for cell in first_cells for name in re.findall(r"`(\w+)`", cell)}


def document(capsys: pytest.CaptureFixture[str], *given: object, status: int = 0) -> dict[str, Any]:
    """Run a command with --json, and return its document, which has the documented fields."""
    capsys.readouterr()
    assert main([*map(str, given), "--json"]) == status
    printed = capsys.readouterr().out

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    found = json.loads(printed, parse_constant=refuse)
    assert found.keys() == documented(str(given[0]))
    return found


@pytest.fixture
def study(prepared: Callable[..., Plan], tmp_path: Path) -> Plan:
    """A study whose data are prepared and of whose two runs one is trained; its folder names it."""
    settings = {"models": {"variants": ["LA"]}, "training": {"seeds": [0, 1]}}
    plan = prepared(**settings)
    loaded = load_study(study_file(tmp_path, **settings), root=plan.study.folder)
    with only_run(loaded), recorded(loaded):
        pass
    plan = Plan(loaded)
    train(plan.runs[0])
    return plan


@pytest.mark.slow
def test_status(study: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, "status", study.study.folder)
    assert found["study"] == study.study.study_id
    assert found["state"] == "stopped"
    assert found["run_by"] is None
    assert 0 < found["done"] < 1
    of_first = [
        state for state in found["states"] if (state["stage"], state["seed"]) == ("train", 0)
    ]
    assert of_first == [
        {
            "stage": "train",
            "model": "LA",
            "seed": 0,
            "state": "complete",
            "done": 1.0,
            "seconds_left": None,
            "detail": None,
        }
    ]


@pytest.mark.slow
def test_checkpoints(study: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, "checkpoints", study.study.folder)
    first, second = found["runs"]
    (checkpoint,) = first["checkpoints"]
    assert (first["model"], first["seed"], second["seed"]) == ("LA", 0, 1)
    assert Path(checkpoint["folder"]).is_dir()
    assert checkpoint["tokens"] == int(Path(checkpoint["folder"]).name)
    assert second["checkpoints"] == []
    every = document(capsys, "checkpoints", study.study.folder, "--all", "--seed", 0)
    assert len(every["runs"][0]["checkpoints"]) == len(study.runs[0].points)


@pytest.mark.slow
def test_plan(study: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, "plan", study.study.folder)
    assert [model["model"] for model in found["models"]] == ["LA"]
    assert found["models"][0]["parameters"] == study.models[0].parameters
    assert found["time"] is None
    assert found["left"]["trainings"] == 1
    assert found["sources"][0]["documents"] == 1500
    assert found["bytes"]["free"] > 0
    priced = document(capsys, "plan", study.study.folder, "--tflops", 1, "--price", 2)
    assert priced["price"] == pytest.approx(2 * priced["time"]["device_hours"])
    assert priced["rates"]["tokens_per_second"]["LA"] > 0


@pytest.mark.slow
def test_what_a_model_prints_is_no_part_of_the_document(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = 'print("imported")\n' + (PROJECT / "tests/model/architectures/own_models.py").read_text()
    (tmp_path / "noisy.py").write_text(own)
    mean = {"name": "Mean", "module": "noisy.py:Mean"}
    path = study_file(tmp_path, models={"variants": ["LA", mean], "depths": [2]})
    capsys.readouterr()
    assert main(["plan", str(path), "--root", str(tmp_path / "run"), "--trust-code", "--json"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["models"][1]["model"] == "Mean"
    assert "imported" in printed.err


@pytest.mark.slow
def test_verify(study: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    folder = study.study.folder
    (shard,) = folder.glob("store/clean/*/documents/*.parquet")
    flip(shard)
    found = document(capsys, "verify", folder, status=1)
    assert found["whole"] is found["repaired"] is False
    assert found["damage"][0]["file"] == str(shard)
    repaired = document(capsys, "verify", folder, "--repair")
    assert repaired["repaired"] is True
    (folder / "store" / "runs" / study.runs[0].run_id).rename(folder / "elsewhere")
    assert document(capsys, "verify", folder)["whole"] is True


@pytest.mark.slow
def test_factors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    curves = curves_in(tmp_path / "t.csv", value="loss", seeds={"A": 1, "B": 2})
    found = document(capsys, "factors", curves)
    assert found["baseline"] == "A"
    assert found["below"] is None
    assert any("One seed" in warning for warning in found["warnings"])
    # no interval with one seed: null, not NaN
    assert {row["low"] for row in found["ratios"]} == {None}
    decided = document(capsys, "factors", curves, "--below", 1, status=4)
    assert decided["below"]["verdict"] == "not yet known"


@pytest.mark.slow
def test_factors_say_what_they_guessed_in_the_document(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "t.csv"
    rows = [f"{model},{2**step},{0.1 * step}" for model in "AB" for step in range(1, 6)]
    table.write_text("\n".join(["model,tokens,acc", *rows]))
    assert any("model" in note for note in document(capsys, "factors", table)["notes"])


@pytest.mark.slow
def test_compare(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    right = {"LA": (4, 8, 12, 16, 20), "DR": (8, 13, 16, 22, 24)}
    paths = [
        entered(tmp_path / f"{name}.duckdb", trained(right, seeds=2), replicates=20)
        for name in ("a", "b")
    ]
    found = document(capsys, "compare", *paths)
    assert found["first"] == {"study": "small-00000000", "results": str(paths[0])}
    assert found["second"]["results"] == str(paths[1])
    assert {row["variant"] for row in found["accuracies"]} == {"LA", "DR"}
    assert not any(row["changed"] for row in found["accuracies"])
    assert found["ratios"]


def test_an_error_prints_no_document(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("status", "plan", "checkpoints", "verify", "factors"):
        assert main([command, "nowhere.yaml", "--json"]) == 2
        printed, said = capsys.readouterr()
        assert printed == ""
        assert said.startswith("dreamer: ")


def test_what_json_lacks_becomes_null_or_plain() -> None:
    frame = pd.DataFrame({"a": [1, None], "b": [math.inf, 2.5], "when": [pd.NaT, pd.Timestamp(0)]})
    assert plain({"rows": frame, "n": np.int64(3), "path": Path("x"), 1: (np.nan, True)}) == {
        "rows": [
            {"a": 1.0, "b": None, "when": None},
            {"a": None, "b": 2.5, "when": "1970-01-01 00:00:00"},
        ],
        "n": 3,
        "path": "x",
        "1": [None, True],
    }
