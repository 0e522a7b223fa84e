"""Commands that print results: `dreamer report` and `dreamer compare`, and the values of their tables as text."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from flows.commands.cli import main
from flows.commands.results import report as command
from flows.commands.tables import cell
from tests.reports.small_results import (
    RIGHT,
    STUDY,
    checkpoints,
    curation,
    entered,
    evaluations,
    model_row,
    run_row,
    study,
)


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


def test_rows_that_enter_while_the_first_page_is_written_are_drawn_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    database, watched = entered(tmp_path / "results.duckdb", {"studies": [study()]}), []
    before = database.stat().st_mtime_ns

    def rows_enter(*_: object) -> Path:
        os.utime(database, ns=(before + 1, before + 1))
        return tmp_path / "report" / "index.html"

    monkeypatch.setattr("reports.page.report.write_report", rows_enter)
    monkeypatch.setattr("reports.page.serving.watch", lambda *given: watched.append(given))
    assert main(["report", str(database), "--watch"]) == 0
    assert watched[0][2] == before < database.stat().st_mtime_ns


def test_the_report_of_another_study_is_said(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    database = entered(tmp_path / "results.duckdb", {"studies": [study()]})
    assert command._study_id(database, "small-changed") == STUDY
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert f"holds no results of small-changed (the study file has changed); showing {STUDY}" in said
    assert command._study_id(database, STUDY) == STUDY
    assert not capsys.readouterr().err


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


def test_mean_factors_are_compared_without_a_bound(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = (results(tmp_path / f"{name}.duckdb", more) for name, more in (("first", 0), ("second", 5)))
    assert main(["compare", str(first), str(second)]) == 0
    told = capsys.readouterr().out
    assert "mean accuracy" in told
    assert "None" not in told
    assert re.search(r"mean accuracy +[0-9.]+ \([0-9.]+ to [0-9.]+\)", told), "a factor has its interval"


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


@pytest.mark.slow
def test_a_page_has_the_studies_side_by_side(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = (results(tmp_path / f"{stream}.duckdb", more, stream) for stream, more in (("aa", 0), ("bb", 5)))
    page = tmp_path / "pages" / "compared.html"
    assert main(["compare", str(first), str(second), "--html", str(page)]) == 0
    assert capsys.readouterr().out.endswith(f"{page}\n")
    text = page.read_text()
    for words in ("DR · small (1)", "DR · small (2)", "LA · small (2)", "beyond noise", "small (2) against small (1)"):
        assert words in text
    ids = re.findall(r' id="([^"]+)"', text.split("<script")[0])
    assert len(ids) == len(set(ids))
    assert "lie beside" not in text
    for words in ("All models read the same tokens", "the longest run", "models had seen all documents before"):
        assert words not in text, "each study has a stream of its own"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.123456, "0.1235"),
        (9999.0, "9,999"),
        (12345.6, "12,346"),
        (524288.0, "524,288"),
        (1e6, "1,000,000"),
        (-48000.0, "-48,000"),
        (12345, "12,345"),
        (float("nan"), "-"),
        (float("inf"), "unbounded"),
        (True, "True"),
    ],
)
def test_numbers_have_no_exponents(value: object, text: str) -> None:
    assert cell(value) == text
