"""What `dreamer compare` prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dreamer_study.flows.commands.cli import main
from tests.reports.small_results import entered, trained


def results(path: Path, more: int, stream: str = "ab") -> Path:
    """Results of LA and DR with three seeds each; DR has `more` right answers at every
    checkpoint."""
    right = {"LA": (4, 8, 12, 16, 20), "DR": [count + more for count in (8, 13, 16, 22, 24)]}
    return entered(path, trained(right, seeds=3, stream=stream), replicates=50)


@pytest.mark.slow
def test_ratios_are_compared_with_their_intervals(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = (str(results(tmp_path / f"{more}.duckdb", more)) for more in (0, 5))
    assert main(["compare", first, second]) == 0
    told = capsys.readouterr().out
    assert "None" not in told
    assert re.search(r"ratio, accuracy +[0-9.]+x \([0-9.]+ to [0-9.]+\)", told), (
        "a ratio has its interval"
    )


@pytest.mark.slow
def test_what_did_not_change_is_counted_and_printed_only_when_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = (
        str(results(tmp_path / f"{stream}.duckdb", 0, stream)) for stream in ("aa", "bb")
    )
    assert main(["compare", first, second]) == 0
    told = capsys.readouterr().out
    assert "because unchanged: 8 rows of accuracies" in told
    assert "GSM8K" not in told
    assert main(["compare", first, second, "--all"]) == 0
    told = capsys.readouterr().out
    assert "unchanged" not in told
    assert "GSM8K" in told
