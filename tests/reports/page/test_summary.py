"""A study in a few lines of Markdown."""

from __future__ import annotations

from pathlib import Path

from reports.data import read_study
from reports.page.summary import summary
from tests.reports.small_results import ITEMS, POINTS, RIGHT, STUDY, entered, model_row, run_row, study, whole_study


def test_the_answer_the_factors_and_the_curves(tmp_path: Path) -> None:
    text = summary(read_study(whole_study(tmp_path / "results.duckdb"), STUDY))
    lines = text.splitlines()
    assert lines[0] == f"# {STUDY}"
    assert "needed" in lines[2]
    factors = [line for line in lines if line.startswith("| 4 |")]
    # DR+DA is better everywhere: no accuracy that both curves cover, so no mean factor, and a sentence instead.
    assert [line.split(" | ")[1] for line in factors if "Average" in line] == ["DR", "tiny"]
    start = lines.index("Accuracy at depth 4, Average:")
    models = lines[start + 2].strip("| ").split(" | ")[1:]
    assert set(models) == set(RIGHT)
    first = [f"{RIGHT[model][0] / ITEMS:.3g}" for model in models]
    assert lines[start + 4] == f"| {' | '.join(['1M', *first])} |"
    assert len([line for line in lines[start + 4 :] if line.startswith("| ")]) == len(POINTS)


def test_a_study_without_results_and_with_odd_names(tmp_path: Path) -> None:
    odd = "a|b*c"
    tables = {"studies": [study()], "models": [model_row(odd, odd, 4)], "runs": [run_row("r", odd)]}
    text = summary(read_study(entered(tmp_path / "results.duckdb", tables), STUDY))
    assert text.startswith(f"# {STUDY}\n\nThere is no answer yet")
    assert "|" not in text.replace("\\|", "")
