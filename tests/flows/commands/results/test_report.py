"""`dreamer report --text` prints what the page says."""

from __future__ import annotations

from pathlib import Path

import pytest

from flows.commands.cli import main
from tests.reports.small_results import RIGHT, curation, entered, evaluations, model_row, run_row, study


def test_the_report_is_printed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    tables: dict = {"studies": [study()], "models": [], "runs": [], "evaluations": [], "curation": curation()}
    for variant in ("LA", "DR"):
        tables["models"].append(model_row(variant, variant, 4))
        tables["runs"].append(run_row(variant, variant))
        tables["evaluations"] += evaluations(variant, RIGHT[variant])["evaluations"]
    database = entered(tmp_path / "results.duckdb", tables)
    assert main(["report", str(database), "--text"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert said.startswith("At depth 4, for equal average accuracy, DR needed 2.52 times fewer training tokens than LA")
    assert "! One seed" in said
    assert "Model LA DR Depth 4 4 GSM8K Acc ↑" in said
    assert "folded away: " in said
    assert "Of 1,000 documents" in said
    assert not (tmp_path / "report").exists()
