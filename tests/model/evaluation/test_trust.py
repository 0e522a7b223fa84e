"""A shared study file runs no command: the two exploits that once worked, and their relatives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from model.evaluation.harness_definitions import build_task
from model.evaluation.harness_tasks import HarnessTask
from model.evaluation.trust import check_task_file
from pipeline.errors import InputError
from tests.model.evaluation.evaluation_world import write_data

TASK = """
task: shapes
dataset_name: default
output_type: generate_until
test_split: test
doc_to_text: "{{question}}"
doc_to_target: "{{answer}}"
metric_list: [{metric: exact_match}]
"""
PROGRAM = "def prompt(item):\n    return 'by a program'\nopen('{}', 'w').close()\n"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return write_data(tmp_path / "data", "default", test=[{"question": "Sides of a square?", "answer": "4"}])


def specification(place: Path, file: Path, **more: Any) -> dict[str, Any]:
    own = {"benchmark": "shapes", "task": "shapes", "metric": "exact_match", "filter": "none", "chance": 0}
    return {**own, "dataset_path": str(place), "yaml": str(file), "overrides": {}, **more}


@pytest.mark.parametrize("field", ["doc_to_text", "doc_to_target"])
def test_a_template_cannot_leave_its_item(tmp_path: Path, place: Path, field: str) -> None:
    file, trace = tmp_path / "shapes.yaml", tmp_path / "trace"
    file.write_text(TASK)
    command = "{{ cycler.__init__.__globals__.os.popen('touch " + str(trace) + "').read() }}"
    for trusted in (False, True):  # trust in Python files opens no template
        with pytest.raises(InputError, match="__init__"):
            HarnessTask(specification(place, file, overrides={field: command}), cache=tmp_path, trust_code=trusted)
    assert not trace.exists()


def test_a_task_file_imports_no_program_without_trust(tmp_path: Path, place: Path) -> None:
    file, trace = tmp_path / "shapes.yaml", tmp_path / "trace"
    (tmp_path / "evil.py").write_text(PROGRAM.format(trace))
    file.write_text(TASK.replace('"{{question}}"', "!function evil.prompt"))
    with pytest.raises(InputError, match=r"shapes\.yaml: !function in line 6 runs code; --trust-code"):
        build_task(specification(place, file), tmp_path)
    including = tmp_path / "outer.yaml"
    including.write_text("include: shapes.yaml\ntask: outer\n")
    with pytest.raises(InputError, match=r"shapes\.yaml: !function"):
        build_task(specification(place, including, task="outer"), tmp_path)
    assert not trace.exists()
    trusted = HarnessTask(specification(place, file), cache=tmp_path, trust_code=True)
    assert trusted.requests["generate_until"][0][0] == "by a program"
    assert trace.exists()


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"metric_list": [{"metric": "exact_match", "hf_evaluate": True}]}, "hf_evaluate"),
        ({"metric_list": [{"metric": "./evil"}]}, "no metric './evil'"),
        ({"use_prompt": "evil.yaml:*"}, "the key 'use_prompt' may run code"),
        ({"custom_dataset": "evil"}, "the key 'custom_dataset' may run code"),
        *(({"unsafe_code": value}, "the key 'unsafe_code' may run code") for value in (True, False, None, 0)),
        ({"use_prompt": False}, "the key 'use_prompt' may run code"),
        ({"doc_to_tex": "x"}, "did you mean 'doc_to_text'"),
    ],
)
def test_no_other_option_runs_code(tmp_path: Path, place: Path, overrides: dict[str, Any], words: str) -> None:
    file = tmp_path / "shapes.yaml"
    file.write_text(TASK)
    with pytest.raises(InputError, match=words):
        build_task(specification(place, file, overrides=overrides), tmp_path)


@pytest.mark.parametrize("text", ["a: !!python/object/apply:os.system [true]", "[a, list]", "a: [", "include: no.yaml"])
def test_a_file_that_is_no_task_is_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "task.yaml").write_text(text)
    with pytest.raises(InputError, match=r"task\.yaml") as error:
        check_task_file(tmp_path / "task.yaml")
    assert "\n" not in str(error.value)


def test_a_path_through_the_trusted_folder_is_not_trusted(tmp_path: Path) -> None:
    trusted = tmp_path / "tasks"
    for folder in (tmp_path, trusted):
        folder.mkdir(exist_ok=True)
        (folder / "shapes.yaml").write_text(TASK.replace('"{{question}}"', "!function evil.prompt"))
    task = tmp_path / "task.yaml"
    task.write_text(f"include: {trusted / 'shapes.yaml'}")
    check_task_file(task, trusted=trusted)
    task.write_text(f"include: {trusted / '..' / 'shapes.yaml'}")
    with pytest.raises(InputError, match=r"shapes\.yaml: !function"):
        check_task_file(task, trusted=trusted)
