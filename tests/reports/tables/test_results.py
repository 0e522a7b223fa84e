"""The paper's Table 2."""

from __future__ import annotations

from pathlib import Path

from reports.data import read_study
from reports.style.theme import styles
from reports.tables.results import results
from tests.reports.small_results import POINTS, STUDY, entered, evaluations, model_row, run_row, study

PERPLEXITIES = {"LA": 9.5, "DR": 8.25}


def test_a_task_with_an_accuracy_and_a_perplexity_has_both(tmp_path: Path) -> None:
    # DR is better by both.
    tables = {"studies": [study()], "models": [], "runs": [], "evaluations": []}
    for variant, right in {"LA": (4, 8), "DR": (8, 12)}.items():
        tables["models"].append(model_row(variant, variant, 4))
        tables["runs"].append(run_row(variant, variant))
        tables["evaluations"] += evaluations(variant, right, ("gsm8k",), POINTS[:2])["evaluations"]
        perplexity = {"run_id": variant, "tokens": POINTS[1], "task": "gsm8k", "metric": "word_perplexity"}
        tables["evaluations"].append({**perplexity, "filter": "none", "value": PERPLEXITIES[variant], "items": 30})
    data = read_study(entered(tmp_path / "results.duckdb", tables), STUDY)
    made = results(data.results, styles(data.variants))
    cells = {row.cells[0].text: row.cells[2:5] for row in made.rows}
    shown = {variant: [cell.text for cell in found] for variant, found in cells.items()}
    assert shown == {"LA": ["9.50", "20.0", "1.0"], "DR": ["8.25", "30.0", "≥\u202f2.0"]}
    assert [cell.kind for cell in cells["DR"][:2]] == ["best", "best"]
    assert [cell.kind for cell in cells["LA"][:2]] == ["second", "second"]
