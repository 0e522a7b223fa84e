"""Which task files may be read, and what stands in files of items."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from lm_eval.api.registry import filter_registry, metric_registry

from dreamer_study.model.evaluation.held_out import HeldOutTask, read_items
from dreamer_study.model.evaluation.lm_eval_definitions import build_task
from dreamer_study.model.evaluation.lm_eval_files import TASKS, read_task
from dreamer_study.model.evaluation.lm_eval_tasks import LmEvalTask
from dreamer_study.model.evaluation.trust import FILTERS, METRICS
from dreamer_study.pipeline.errors import InputError
from tests.model.evaluation.evaluation_world import USERS_TASK, held_out, write_data

PROGRAM = "def prompt(item):\n    return 'by a program'\nopen('{}', 'w').close()\n"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return write_data(
        tmp_path / "data", "default", test=[{"question": "Sides of a square?", "answer": "4"}]
    )


def specification(place: Path, file: Path | None, **more: Any) -> dict[str, Any]:
    own = {
        "benchmark": "shapes",
        "task": "shapes",
        "metric": "exact_match",
        "filter": "none",
        "chance": 0,
    }
    return {**own, "dataset_path": str(place), "yaml": file and str(file), "overrides": {}, **more}


@pytest.mark.parametrize("field", ["doc_to_text", "doc_to_target"])
def test_a_template_cannot_leave_its_item(tmp_path: Path, place: Path, field: str) -> None:
    file, trace = tmp_path / "shapes.yaml", tmp_path / "trace"
    file.write_text(USERS_TASK)
    command = "{{ cycler.__init__.__globals__.os.popen('touch " + str(trace) + "').read() }}"
    for trusted in (False, True):  # trust in Python files opens no template
        with pytest.raises(InputError, match="__init__"):
            LmEvalTask(
                specification(place, file, overrides={field: command}),
                cache=tmp_path,
                trust_code=trusted,
            )
    assert not trace.exists()


def test_a_task_file_imports_no_program_without_trust(tmp_path: Path, place: Path) -> None:
    file, trace = tmp_path / "shapes.yaml", tmp_path / "trace"
    (tmp_path / "evil.py").write_text(PROGRAM.format(trace))
    file.write_text(USERS_TASK.replace('"{{question}}"', "!function evil.prompt"))
    with pytest.raises(
        InputError, match=r"shapes\.yaml: !function in line 7 runs code; --trust-code"
    ):
        build_task(specification(place, file), tmp_path)
    assert not trace.exists()
    trusted = LmEvalTask(specification(place, file), cache=tmp_path, trust_code=True)
    assert trusted.requests["generate_until"][0][0] == "by a program"
    assert trace.exists()


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (
            {"metric_list": [{"metric": "exact_match", "hf_evaluate": True}]},
            "the key 'hf_evaluate' may run code",
        ),
        ({"metric_list": [{"metric": "math_verify"}]}, "the metric 'math_verify' may run code"),
        ({"metric_list": "evil"}, "metric_list is no list of mappings"),
        (
            {"filter_list": [{"filter": [{"function": "regex", "fallback": "1"}]}]},
            "the key 'fallback' may run code",
        ),
        (
            {"filter_list": [{"filter": [{"function": "custom"}]}]},
            "the filter 'custom' may run code",
        ),
        ({"filter_list": [{"filter": [{"function": "map"}]}]}, "the filter 'map' may run code"),
        ({"output_type": "evil"}, "the output type 'evil' may run code"),
        ({"dataset_kwargs": {"storage_options": {}}}, "the key 'storage_options' may run code"),
        ({"custom_dataset": "evil"}, "the key 'custom_dataset' may run code"),
        *(
            ({"unsafe_code": value}, "the key 'unsafe_code' may run code")
            for value in (True, False, None, 0)
        ),
        ({"use_prompt": False}, "the key 'use_prompt' may run code"),
        ({"doc_to_tex": "x"}, "did you mean 'doc_to_text'"),
    ],
)
def test_no_other_option_runs_code(
    tmp_path: Path, place: Path, overrides: dict[str, Any], words: str
) -> None:
    file, changed = tmp_path / "shapes.yaml", tmp_path / "changed.yaml"
    file.write_text(USERS_TASK)
    changed.write_text(yaml.safe_dump(yaml.safe_load(USERS_TASK) | overrides))
    for given in (specification(place, file, overrides=overrides), specification(place, changed)):
        with pytest.raises(InputError, match=rf"benchmark shapes.*{words}.*--trust-code"):
            build_task(given, tmp_path)


def test_the_lists_name_what_lm_eval_has() -> None:
    assert {*METRICS, *FILTERS} <= {*metric_registry.keys(), *filter_registry.keys()}


# evaluates answers: what follows would run in a task of the table that did
SCORE = "prompt_robustness_math_algebra"


@pytest.mark.slow
@pytest.mark.parametrize(
    "task", [SCORE, "hendrycks_math_algebra", "minerva_math_algebra", "mathqa"]
)
def test_the_table_evaluates_no_answer(tmp_path: Path, task: str) -> None:
    trace = tmp_path / "trace"
    program = f"open('{trace}','w')"
    mathqa = {"Problem": "?", "options": f"a ) {program} , b ) {program} , ", "correct": "b"}
    math = {"problem": "?", "level": "Level 1", "type": "Algebra"} | mathqa
    rows = [math | {"solution": rf"So \boxed{{{gold}}}"} for gold in (program, 2)]
    place = write_data(tmp_path / "data", "default", test=rows)
    given = specification(place, None, task=task, overrides={"dataset_name": "default"})
    if task == SCORE:
        with pytest.raises(InputError, match="!function in line"):
            build_task(given, tmp_path)
    built = build_task(given, tmp_path, trust_code=task == SCORE)
    for answer in (
        "2",
        program,
        rf"$\boxed{{{program}}}$",
        f"The final answer is {program}. I hope it is correct.",
    ):
        for item in built.eval_docs:
            built.process_results(item, [(-1.0, False)] * 2 if task == "mathqa" else [answer])
    assert trace.exists() == (task == SCORE)


@pytest.mark.parametrize(
    "text", ["a: !!python/x []", "[a]", "a: [", "include: none", "include: .", r'include: "\0"']
)
def test_a_file_that_is_no_task_is_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "task.yaml").write_text(text)
    with pytest.raises(InputError, match="here: ") as error:
        read_task(tmp_path / "task.yaml", "here")
    assert "\n" not in str(error.value)


def test_what_is_included_is_plain_or_of_the_table(tmp_path: Path) -> None:
    task = tmp_path / "task.yaml"
    task.write_text(f"include: [{TASKS}/arc/arc_easy.yaml, {TASKS}/mathqa/mathqa.yaml]")
    read_task(task, "here")
    for included in ("mathqa/../ifeval/ifeval", "score/math/prompt_robustness_math_precalc"):
        task.write_text(f"include: {TASKS / included}.yaml")
        with pytest.raises(InputError, match=r"here: .*tasks/(score|ifeval)/.*: !function in line"):
            read_task(task, "here")


def test_a_later_include_wins_over_an_earlier_one_and_the_file_over_both(tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text("{doc_to_text: one, doc_to_target: one, description: one}")
    (tmp_path / "two.yaml").write_text("{doc_to_text: two, doc_to_target: two}")
    task = tmp_path / "task.yaml"
    task.write_text("{include: [one.yaml, two.yaml], doc_to_text: own}")
    assert read_task(task, "here").definition == {
        "doc_to_text": "own",
        "doc_to_target": "two",
        "description": "one",
    }
    (tmp_path / "two.yaml").write_text("include: task.yaml")
    with pytest.raises(
        InputError, match=r"here: .*task\.yaml cannot be read: it is included twice"
    ):
        read_task(task, "here")


ITEM = {"id": "a", "prompt": "?", "target": "7"}


def test_files_of_items(tmp_path: Path) -> None:
    path = tmp_path / "items.jsonl"
    given = held_out(path)
    with pytest.raises(InputError, match="no such file of items"):
        HeldOutTask(given)
    path.write_text("")
    with pytest.raises(InputError, match="holds no item"):
        HeldOutTask(given)
    path.write_text('{"id": "a", "prompt": "?", "target": "7"}\n{"id": "b"}\n')
    with pytest.raises(InputError, match="line 2: not an item"):
        HeldOutTask(given)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"target": 7}, "target is 7"),
        ({"prompt": None}, "prompt is None"),
        ({"id": 3}, "id is 3"),
        ({}, "id 'a' is the same as in line 1; give every item a different id"),
    ],
)
def test_an_item_that_cannot_be_scored_is_named_by_file_and_line(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "items.jsonl"
    path.write_text(f"{json.dumps(ITEM)}\n{json.dumps({**ITEM, **changes})}\n")
    with pytest.raises(InputError, match=rf"items\.jsonl, line 2: .*{message}"):
        read_items(path)


def test_only_a_line_feed_ends_an_item(tmp_path: Path) -> None:
    """Characters that end a line elsewhere are text in JSON."""
    path, texts = tmp_path / "items.jsonl", [f"one{mark}two" for mark in "\u2028\u2029\u0085"]
    lines = [json.dumps({**ITEM, "id": text, "target": text}, ensure_ascii=False) for text in texts]
    path.write_text("\r\n".join(lines), newline="")
    assert [item["target"] for item in read_items(path)] == texts
