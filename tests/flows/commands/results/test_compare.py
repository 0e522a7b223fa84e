"""What `dreamer compare` prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from flows.commands.cli import main
from tests.reports.small_results import checkpoints, entered, evaluations, model_row, run_row, study


def results(path: Path, more: int, stream: str = "ab") -> Path:
    """Results of LA and DR with three seeds each; DR has `more` right answers at every checkpoint."""
    tables: dict = {"studies": [study()], "models": [], "runs": [], "evaluations": [], "items": []}
    tables["checkpoints"] = []
    for variant, counts in {"LA": (4, 8, 12, 16, 20), "DR": (8, 13, 16, 22, 24)}.items():
        tables["models"].append(model_row(variant, variant, 4))
        for seed in range(3):
            run = f"{variant}-s{seed}"
            tables["runs"].append(run_row(run, variant) | {"seed": seed})
            tables["checkpoints"] += checkpoints(run, stream=f"{stream}{seed}")
            right = [count + seed + more * (variant == "DR") for count in counts]
            for name, rows in evaluations(run, right).items():
                tables[name] += rows
    return entered(path, tables, replicates=50)


@pytest.mark.slow
def test_mean_factors_are_compared_without_a_bound(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = (str(results(tmp_path / f"{more}.duckdb", more)) for more in (0, 5))
    assert main(["compare", first, second]) == 0
    told = capsys.readouterr().out
    assert "mean accuracy" in told
    assert "None" not in told
    assert re.search(r"mean accuracy +[0-9.]+ \([0-9.]+ to [0-9.]+\)", told), "a factor has its interval"


@pytest.mark.slow
def test_what_did_not_change_is_counted_and_printed_only_when_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = (str(results(tmp_path / f"{stream}.duckdb", 0, stream)) for stream in ("aa", "bb"))
    assert main(["compare", first, second]) == 0
    told = capsys.readouterr().out
    assert "because unchanged: 8 rows of accuracies" in told
    assert "GSM8K" not in told
    assert main(["compare", first, second, "--all"]) == 0
    told = capsys.readouterr().out
    assert "unchanged" not in told
    assert "GSM8K" in told
