"""Reports of studies that are not whole: each is told, and says what is missing and what makes it
weak."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from dreamer_study.pipeline.errors import InputError
from dreamer_study.reports.data import StudyData, read_study
from dreamer_study.reports.figures.accuracy import accuracy
from dreamer_study.reports.page.answer import first_screen, read_answer
from dreamer_study.reports.page.plain import plain_report
from dreamer_study.reports.style.theme import styles
from dreamer_study.sql.results import connect
from tests.reports.small_results import (
    POINTS,
    RIGHT,
    STUDY,
    Tables,
    checkpoints,
    entered,
    evaluations,
    model_row,
    models_and_runs,
    run_row,
    trained,
)

pytestmark = pytest.mark.slow

BOTH = {name: RIGHT[name] for name in ("LA", "DR")}


class Told(NamedTuple):
    """What a report says: its answer, the warnings beside the answer, all of its paragraphs, and
    its data."""

    answer: str
    warnings: list[str]
    text: str
    data: StudyData

    def warned(self, *words: str) -> bool:
        """Tell whether one warning holds all of these words."""
        return any(all(word in warning for word in words) for warning in self.warnings)


def told(database: Path) -> Told:
    data = read_study(database, STUDY)
    first = first_screen(data, styles(data.variants))
    answer = read_answer(database, STUDY)
    assert (answer.sentences, answer.warnings) == (first.sentences, first.warnings)
    text = "\n".join(part for part in plain_report(database, STUDY) if isinstance(part, str))
    return Told(" ".join(first.sentences), first.warnings, text, data)


def report(tmp_path: Path, tables: Tables, replicates: int = 0) -> Told:
    return told(entered(tmp_path / "results.duckdb", tables, replicates=replicates))


@pytest.mark.parametrize(
    ("variants", "said"),
    [
        ((), "no accuracy has been measured"),
        (("LA",), "only the baseline"),
        (("DR", "DR+DA"), "has no accuracy"),
    ],
    ids=["no evaluation", "no other model", "no baseline"],
)
def test_a_study_without_an_answer_says_why(
    tmp_path: Path, variants: Sequence[str], said: str
) -> None:
    found = report(tmp_path, trained({name: RIGHT[name] for name in variants}))
    assert found.answer.startswith("There is no answer")
    assert said in found.answer


def test_several_seeds_have_an_interval_around_the_ratio_which_goes_after_a_change(
    tmp_path: Path,
) -> None:
    found = report(
        tmp_path,
        trained({"LA": (4, 8, 12, 16, 20), "DR": (8, 13, 16, 22, 24)}, seeds=3),
        replicates=50,
    )
    rows = found.data.ratios
    (row,) = rows[
        (rows["variant"] == "DR") & (rows["task"] == "average") & (rows["metric"] == "accuracy")
    ].itertuples()
    assert row.low < row.ratio < row.high
    for number in (row.ratio, row.low, row.high):
        assert f"{number:.2f}" in found.answer
    assert not found.warned("One seed")
    assert not found.warned("dreamer intervals")
    with connect(tmp_path / "results.duckdb") as connection:
        connection.execute("delete from runs where seed = 2")
    changed = told(tmp_path / "results.duckdb")
    assert changed.data.ratios["ratio"].isna().all()
    assert changed.answer.startswith("There is no answer yet: results changed")
    assert changed.warned("Not computed", "ratios of DR", "`dreamer intervals")


@pytest.mark.parametrize("status", ["failed", "training"])
def test_runs_that_are_in_no_curve_are_no_seeds_of_one(tmp_path: Path, status: str) -> None:
    tables = trained(BOTH, seeds=3)
    for run in tables["runs"]:
        run["status"] = status if run["seed"] == 2 else "complete"
    found = report(tmp_path, tables)
    assert set(found.data.curve["seeds"]) == {2}
    frames = (
        getattr(found.data, name)
        for name in ("curve", "accuracy", "efficiency", "raw_accuracy", "counted")
    )
    drawn = accuracy(*frames, styles(["LA", "DR"]), 4)
    curves = json.dumps([panel.specification for panel in drawn.panels])
    assert "DR-s1" in curves
    assert "DR-s2" not in curves, "no thin line"


@pytest.mark.parametrize("status", ["complete", "training"])
def test_a_curve_that_its_shortest_seed_ends_is_named_once_no_seed_continues(
    tmp_path: Path, status: str
) -> None:
    tables = trained(BOTH, seeds=2)
    last = max(row["tokens"] for row in tables["evaluations"])
    for name in ("evaluations", "items"):
        tables[name] = [
            row for row in tables[name] if row["run_id"] != "DR-s1" or row["tokens"] < last
        ]
    tables["runs"] = [{**run, "status": status} for run in tables["runs"]]
    assert report(tmp_path, tables).warned("Cut short: DR at ", "others continued") == (
        status == "complete"
    )


def test_runs_that_lack_something_are_named_beside_the_answer_of_the_others(tmp_path: Path) -> None:
    tables = trained({**RIGHT, "DR+DA": RIGHT["DR"]})
    for name in ("late", "cut"):
        tables["models"].append(model_row(name, name, 4))
    tables["runs"].append(run_row("late-s0", "late", tokens=3_000_000, status="failed"))
    tables["runs"].append(
        {"run_id": "cut-s0", "study_id": STUDY, "model_id": "cut", "seed": 0, "status": "failed"}
    )
    details = {"late-s0": "step 30: out of memory", "cut-s0": "killed"}
    tables["run_details"] = [
        {"run_id": run, "failure": failure} for run, failure in details.items()
    ]
    tables["runs"].append(run_row("DR-s1", "DR") | {"seed": 1})
    tables["checkpoints"] += checkpoints("DR-s1")
    for name in ("evaluations", "items"):
        tables[name] = [
            row for row in tables[name] if (row["run_id"], row["task"]) != ("tiny-s0", "mmlu_math")
        ]
    found = report(tmp_path, tables, replicates=2)
    assert found.warned("Failed", "late", "cut", "2 runs of 7")
    assert "late-s0 (failed: step 30: out of memory)" in found.text
    assert "cut-s0 (failed: killed)" in found.text
    assert found.warned("Not evaluated", "1 run of 7")
    assert "in no curve: DR-s1" in found.text
    assert found.warned("Not evaluated", "tiny", "MMLU (math)", "without an average")
    assert "DR took" in found.answer, "the answer of the others"


def test_a_loss_that_is_not_a_number_is_said_at_once(tmp_path: Path) -> None:
    tables = trained({"LA": RIGHT["LA"], "DR": RIGHT["DR"]})
    for row in tables["steps"][-40:]:
        row["loss"] = float("nan")
    tables["runs"][-1]["status"] = "failed"
    found = report(tmp_path, tables)
    assert found.answer.startswith("There is no answer")
    assert found.warned("not a finite number", "DR")


def test_a_study_at_chance_tells_nothing_and_says_so(tmp_path: Path) -> None:
    tables = trained({"LA": (10, 9, 11, 10, 10), "DR": (9, 10, 10, 11, 10)}, tasks=["mmlu_math"])
    for row in tables["evaluations"]:
        row["chance"] = 0.25
    found = report(tmp_path, tables, replicates=20)
    assert "neither accuracy rose above chance" in found.answer
    assert found.warned("Near chance", "MMLU (math)")


def test_one_checkpoint_gives_a_bound_by_the_papers_rule_only(tmp_path: Path) -> None:
    tables = models_and_runs("LA", "DR", "mine")
    for variant, right in (("LA", 10), ("DR", 12), ("mine", 8)):
        tables["evaluations"] += evaluations(variant, [right], points=[1_000_000])["evaluations"]
    found = report(tmp_path, tables, replicates=2)
    assert found.data.ratios["ratio"].isna().all()
    assert "mine cannot be compared with LA" in found.answer
    assert "There is one checkpoint only" in found.text


def test_models_that_read_other_data_are_warned_of_at_once(tmp_path: Path) -> None:
    tables = trained(BOTH)
    tables["checkpoints"] = checkpoints("LA-s0", stream="aa") + checkpoints("DR-s0", stream="bb")
    found = report(tmp_path, tables)
    assert found.warned("did not all read the same tokens")
    assert found.text.count("hashes of what they had read differ") == 1


def test_other_seeds_have_other_orders(tmp_path: Path) -> None:
    tables: Tables = {"models": [], "runs": [], "checkpoints": []}
    for variant, seed, status in (
        ("LA", 0, "complete"),
        ("DR", 0, "screened"),
        ("DR", 1, "complete"),
    ):
        run = f"{variant}{seed}"
        tables["models"].append(model_row(variant, variant, 4))
        tables["runs"].append({**run_row(run, variant, status=status), "seed": seed})
        tables["checkpoints"] += checkpoints(run, stream=str(seed))
    found = report(tmp_path, tables)
    assert not found.warned("did not all read the same tokens")
    assert "Runs of one seed read the same tokens" in found.text
    assert "1 run ended early" in found.text


@pytest.mark.parametrize(("depths", "shown"), [([4], 0), ([3, 4, 5], 2)])
def test_depths_are_compared_where_a_run_was_evaluated_at_another(
    tmp_path: Path, depths: list[int], shown: int
) -> None:
    """A depth without an accuracy is left out."""
    tables = {
        "models": [model_row("DR", "DR", 4)],
        "runs": [run_row("r", "DR")],
        **evaluations("r", [5], points=[9]),
    }
    row = {
        name: tables["evaluations"][0][name]
        for name in ("run_id", "tokens", "task", "metric", "filter")
    }
    tables["depth_evaluations"] = [
        {**row, "depth": depth, "value": None if depth == 5 else 0.1} for depth in depths
    ]
    assert len(report(tmp_path, tables).data.other_depths) == shown


def test_doubts_are_said(tmp_path: Path) -> None:
    tables = models_and_runs("LA", "DR", "late")
    tables["runs"][2]["status"] = "killed"
    for row in evaluations("LA", (11, 10, 10, 9, 9), tasks=("mmlu_math",))["evaluations"]:
        tables["evaluations"].append({**row, "chance": 0.25})
    tables["evaluations"] += evaluations("DR", (2, 4, 6, 8, 14), tasks=("mmlu_math",))[
        "evaluations"
    ]
    found = report(tmp_path, tables)
    assert found.warned("Near chance", "MMLU (math)")
    assert found.warned("Killed", "late")
    assert "late (killed)" in found.text


def test_results_from_elsewhere_may_lack_almost_everything(tmp_path: Path) -> None:
    bare = [{"run_id": run, "study_id": STUDY, "model_id": run} for run in ("LA", "other")]
    rows = [
        {
            "run_id": run,
            "tokens": tokens,
            "task": "riddles",
            "metric": "acc",
            "filter": "none",
            "value": value,
        }
        for run, values in (("LA", (0.2, 0.4)), ("other", (0.4, None)))
        for tokens, value in zip(POINTS, values, strict=False)
    ]
    tables = {"studies": [{"study_id": STUDY}], "runs": bare, "evaluations": rows}
    found = report(tmp_path, tables, replicates=1)
    assert "other" in found.answer
    assert "riddles" in found.text
    assert "neither the configuration nor the code version" in found.text


@pytest.mark.parametrize("name", ["task", "variant"])
def test_a_name_that_no_figure_can_show_is_one_line(tmp_path: Path, name: str) -> None:
    long = "N" * 300
    run, task = ("LA", long) if name == "task" else (long, "riddles")
    row = {"run_id": "a", "metric": "acc", "filter": "none", "value": 0.2}
    tables = {
        "studies": [{"study_id": STUDY}],
        "models": [{"study_id": STUDY, "model_id": run, "variant": run}],
        "runs": [{"run_id": "a", "study_id": STUDY, "model_id": run}],
        "evaluations": [{**row, "tokens": tokens, "task": task} for tokens in POINTS],
    }
    with pytest.raises(InputError, match=r"results.duckdb: \w+ 'N{40}'... has 300 characters"):
        read_study(entered(tmp_path / "results.duckdb", tables), STUDY)
