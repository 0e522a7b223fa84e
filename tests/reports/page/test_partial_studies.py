"""Reports of studies that are not whole: each is written, and says what is missing."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from reports.page.report import write_report
from tests.reports.page.test_report import Page, read
from tests.reports.small_results import (
    RIGHT,
    STUDY,
    checkpoints,
    entered,
    evaluations,
    model_row,
    run_row,
    study,
)

Tables = dict[str, list[dict[str, Any]]]


def trained(right: Mapping[str, Sequence[int]], tasks: Sequence[str] = ("gsm8k", "mmlu_math")) -> Tables:
    """A model for each variant, trained and evaluated."""
    tables: Tables = {"studies": [study()], "models": [], "runs": [], "steps": [], "checkpoints": [], "run_details": []}
    tables |= {"evaluations": [], "items": []}
    for variant, counts in right.items():
        tables["models"].append(model_row(variant, variant, 4))
        tables["runs"].append(run_row(variant, variant))
        tables["steps"] += [
            {"run_id": variant, "step": n, "tokens": n * 100_000, "loss": 5 / n**0.3, "seconds": 1.0 * n}
            for n in range(1, 161)
        ]
        tables["checkpoints"] += checkpoints(variant)
        for name, rows in evaluations(variant, counts, tasks).items():
            tables[name] += rows
    return tables


def report(tmp_path: Path, tables: Tables) -> Page:
    database = entered(tmp_path / "results.duckdb", tables, replicates=20 if tables["evaluations"] else 0)
    return read(write_report(database, STUDY, tmp_path / "report", papers=False))


def test_no_evaluation_yet(tmp_path: Path) -> None:
    text = report(tmp_path, {**trained(RIGHT), "evaluations": [], "items": []}).text
    assert "There is no answer yet: no accuracy has been measured." in text
    assert "Training loss" in text


def test_one_variant(tmp_path: Path) -> None:
    text = report(tmp_path, trained({"LA": RIGHT["LA"]})).text
    assert "There is no answer: the study has only the baseline LA, and no model to compare with it." in text
    assert "Depth 4" in text


def test_no_baseline(tmp_path: Path) -> None:
    text = report(tmp_path, trained({name: RIGHT[name] for name in ("DR", "DR+DA")})).text
    assert "There is no answer: LA, the baseline that the other models are compared with, has no accuracy." in text
    assert "Depth 4 has no evaluated LA, so there are no factors for it." in text


def test_a_failed_run(tmp_path: Path) -> None:
    tables = trained({"LA": RIGHT["LA"], "DR": RIGHT["DR"]})
    tables["models"].append(model_row("late", "late", 4))
    tables["runs"].append(run_row("late-s0", "late", tokens=3_000_000, status="failed"))
    tables["run_details"] = [{"run_id": "late-s0", "failure": "step 30: out of memory"}]
    text = report(tmp_path, tables).text
    assert "Failed: late at depth 4 (1 run of 3)." in text, "on the first screen"
    assert "Not complete: late-s0 (failed: step 30: out of memory)." in text
    assert "At depth 4, for equal average accuracy, DR needed" in text, "the answer of the others is there"


@pytest.mark.parametrize("status", ["failed", "training"])
def test_runs_that_are_in_no_curve_are_no_seeds_of_one(tmp_path: Path, status: str) -> None:
    tables = trained({"LA": RIGHT["LA"], "DR": RIGHT["DR"]})
    for variant in ("LA", "DR"):
        for seed, ended in ((1, "complete"), (2, status)):
            run = f"{variant}-s{seed}"
            tables["runs"].append(run_row(run, variant, status=ended) | {"seed": seed})
            for name, rows in evaluations(run, RIGHT[variant]).items():
                tables[name] += rows
    page = report(tmp_path, tables)
    assert "Every model is the mean of 2 seeds." in page.text
    (curves,) = [json.dumps(one) for name, one in page.packed["figures"].items() if name.startswith("accuracy-")]
    assert "DR-s1" in curves
    assert "DR-s2" not in curves, "no thin line"


def test_a_failed_evaluation(tmp_path: Path) -> None:
    tables = trained({"LA": RIGHT["LA"], "DR": RIGHT["DR"]})
    tables["runs"].append(run_row("DR-s1", "DR") | {"seed": 1})
    tables["checkpoints"] += checkpoints("DR-s1")
    text = report(tmp_path, tables).text
    assert "Not evaluated: 1 run of 3." in text
    assert "Trained but not evaluated, so in no curve: DR-s1." in text
    assert "At depth 4, for equal average accuracy, DR needed" in text, "the answer of the others is there"


def test_a_loss_that_is_not_a_number(tmp_path: Path) -> None:
    tables = trained({"LA": RIGHT["LA"], "DR": RIGHT["DR"]})
    for row in tables["steps"][-40:]:
        row["loss"] = float("nan")
    tables["runs"][-1]["status"] = "failed"
    text = report(tmp_path, tables).text
    assert "There is no answer: no other model was evaluated at a depth and on a benchmark where LA was." in text
    assert "Failed: DR at depth 4 (1 run of 2)." in text, "on the first screen"
    assert "Broken training: the loss of DR at depth 4 was not a finite number at some steps." in text
    assert "The loss was not a finite number in DR (40 steps); such steps are not drawn." in text
    assert "Not complete: DR (failed)." in text


def test_a_missing_task(tmp_path: Path) -> None:
    tables = trained({"LA": RIGHT["LA"], "DR": RIGHT["DR"]})
    for name in ("evaluations", "items"):
        tables[name] = [row for row in tables[name] if (row["run_id"], row["task"]) != ("DR", "mmlu_math")]
    text = report(tmp_path, tables).text
    assert "Not evaluated: DR at depth 4 on MMLU (math), so without an average." in text, "on the first screen"
    assert "DR at depth 4 was not evaluated on MMLU (math) and the average." in text
    assert "DR reached LA’s best accuracy on GSM8K" in text


def test_everything_at_chance(tmp_path: Path) -> None:
    tables = trained({"LA": (10, 9, 11, 10, 10), "DR": (9, 10, 10, 11, 10)}, tasks=["mmlu_math"])
    for row in tables["evaluations"]:
        row["chance"] = 0.25
    text = report(tmp_path, tables).text
    assert "The study cannot tell whether DR needed fewer or more training tokens than LA at depth 4" in text
    assert "Near chance: LA on Average and MMLU (math)." in text
    assert "LA’s best is within two standard errors of chance on" in text
    assert "those factors say little" in text


def test_a_run_cut_off_before_its_first_checkpoint_has_no_rows_but_its_own(tmp_path: Path) -> None:
    tables = {**trained({}), "models": [model_row("LA", "LA", 4)]}
    tables["runs"] = [{"run_id": "LA-s0", "study_id": STUDY, "model_id": "LA", "seed": 0, "status": "failed"}]
    tables["run_details"] = [{"run_id": "LA-s0", "failure": "killed"}]
    text = report(tmp_path, tables).text
    assert "Failed: LA at depth 4 (1 run of 1)." in text, "on the first screen"
    assert "Not complete: LA-s0 (failed: killed)." in text
