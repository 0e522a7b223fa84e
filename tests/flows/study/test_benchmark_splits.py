"""The split that is evaluated is the one that the task file names, unless the study names one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dreamer_study.flows.commands.cli import main
from dreamer_study.flows.plan.preflight import check_study
from dreamer_study.flows.plan.study_plan import Plan
from dreamer_study.flows.study.loading import load_study
from dreamer_study.pipeline.errors import InputError
from tests.flows.by_hand import study_file
from tests.pipeline.documents import lines

ENTRY = {
    "name": "puzzles",
    "repository": "me/puzzles",
    "yaml": "puzzles.yaml",
    "metric": "acc",
    "chance": 0.25,
    "question": "question",
    "options": "choices",
}


def puzzles(every_label: Any, **changes: Any) -> list[dict[str, Any]]:
    rows = [
        {
            "question": f"What is {number} plus 3?",
            "choices": ["1", "5", "8", "9"],
            "label": every_label,
        }
        for number in range(6)
    ]
    rows[3] |= changes
    return rows


def write(folder: Path, task: dict[str, Any], entry: dict[str, Any], **splits: Any) -> Path:
    for split, rows in splits.items():
        lines(folder / "mirror" / "me" / "puzzles" / "default" / f"{split}.jsonl", rows)
    definition = {
        "task": "puzzles",
        "output_type": "multiple_choice",
        "doc_to_text": "Question: {{question}}\nAnswer:",
        "doc_to_choice": "{{choices}}",
        "doc_to_target": "{{label}}",
        "metric_list": [{"metric": "acc"}],
        **task,
    }
    (folder / "puzzles.yaml").write_text(json.dumps(definition))
    return study_file(
        folder,
        data={"mirror": str(folder / "mirror")},
        evaluation={"benchmarks": [{**ENTRY, **entry}]},
    )


@pytest.mark.parametrize(
    ("task", "entry", "split"),
    [
        ({"validation_split": "validation"}, {}, "validation"),
        ({"validation_split": "validation", "test_split": "test"}, {}, "test"),
        ({"test_split": "eval"}, {}, "eval"),
        ({"validation_split": "validation"}, {"split": "test"}, "test"),
        ({"test_split": "test"}, {"overrides": {"test_split": "eval"}}, "eval"),
        ({}, {"overrides": {"validation_split": "dev"}}, "dev"),
        ({}, {}, "test"),
        ({"training_split": "train"}, {}, "test"),
        ({"test_split": None, "validation_split": "dev"}, {}, "dev"),
    ],
)
def test_the_test_split_comes_before_the_validation_split(
    tmp_path: Path, task: dict[str, Any], entry: dict[str, Any], split: str
) -> None:
    study = load_study(write(tmp_path, task, entry), root=tmp_path / "run")
    (benchmark,) = study.own_benchmarks
    assert benchmark.split == split


@pytest.mark.slow
def test_a_task_of_lm_eval_names_its_split_too(tmp_path: Path) -> None:
    entry = {"name": "piqa", "task": "piqa", "repository": "me/piqa", "metric": "acc"}
    path = study_file(tmp_path, evaluation={"benchmarks": [entry]})
    (benchmark,) = load_study(path, root=tmp_path / "run").own_benchmarks
    assert benchmark.split == "validation"


def test_hidden_labels_of_a_test_split_that_the_task_does_not_name_do_not_count(
    tmp_path: Path,
) -> None:
    path = write(
        tmp_path, {"validation_split": "validation"}, {}, test=puzzles(-1), validation=puzzles(2)
    )
    study = load_study(path, root=tmp_path / "run")
    check_study(study)
    (task,) = Plan(study).specifications(study.own_benchmarks[0])
    assert list(task["overrides"]["dataset_kwargs"]["data_files"]) == ["validation"]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (puzzles(-1), "6 of 6 items have no right answer"),
        (puzzles("C"), "6 of 6 items have no right answer"),
        (puzzles(2, label=4), "item puzzles/3 has no right answer"),
        (puzzles(2, choices=None), "item puzzles/3 has no right answer"),
    ],
)
def test_items_without_a_right_answer_are_refused_before_any_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], rows: list[dict[str, Any]], words: str
) -> None:
    path = write(tmp_path, {"test_split": "test"}, {}, test=rows)
    for command in ("plan", "run"):
        arguments = [command, str(path), "--root", str(tmp_path / "run")]
        plain = ["--plain"] if command == "run" else []
        assert main([*arguments, *plain]) == 2
        error = capsys.readouterr().err.strip().splitlines()[-1]
        assert error.startswith("dreamer: benchmark 'puzzles': ")
        assert words in error
        assert not (tmp_path / "run" / "store" / "world").exists()
    with pytest.raises(InputError, match=words):
        check_study(load_study(path, root=tmp_path / "run"))
