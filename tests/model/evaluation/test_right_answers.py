"""Items that no answer can be right for are told before anything is trained."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from dreamer_study.model.evaluation.lm_eval_definitions import build_task, tune_libraries
from dreamer_study.model.evaluation.right_answers import check_right_answers
from dreamer_study.pipeline.errors import InputError
from tests.model.evaluation.evaluation_world import write_data

tune_libraries()

CHOICE = {
    "output_type": "multiple_choice",
    "doc_to_choice": "{{choices}}",
    "doc_to_target": "{{label}}",
    "metric_list": [{"metric": "acc"}],
}
WRITTEN = {
    "output_type": "generate_until",
    "doc_to_target": "{{answer}}",
    "generation_kwargs": {"until": ["\n"], "do_sample": False},
    "metric_list": [{"metric": "exact_match"}],
}
TEXTS = ["10", "8", "7", "9"]


def said(folder: Path, definition: dict[str, Any], items: list[dict[str, Any]]) -> str:
    """Return the refusal of these items, or "" where all have a right answer."""
    place = write_data(
        folder / "data",
        "default",
        test=[{"question": f"q{number}", **item} for number, item in enumerate(items)],
    )
    path = folder / "mine.yaml"
    path.write_text(
        json.dumps(
            {"task": "mine", "test_split": "test", "doc_to_text": "{{question}}", **definition}
        )
    )
    specification = {
        "benchmark": "sums",
        "task": "mine",
        "dataset_path": str(place),
        "yaml": str(path),
    }
    try:
        check_right_answers(build_task(specification, folder), specification)
    except InputError as error:
        return str(error)
    return ""


def choice(label: Any, choices: Any = TEXTS) -> dict[str, Any]:
    return {"choices": choices, "label": label}


@pytest.mark.parametrize(
    ("label", "words"),
    [
        (-1, "its label is hidden (-1)"),
        (4, "its label is 4 of 4 choices, counted from 0: are labels counted from 1?"),
        (7, "its label is 7 of 4 choices, counted from 0;"),
        ("C", "its label 'C' is none of its choices '10', '8', '7', '9': give the number"),
        ("(c)", "give the number of the choice"),
        ("11", "its label is 11 of 4 choices"),
        ("1.0", "a number as text"),
        ("seven", "its label 'seven' is none of its choices"),
        ("", "its label is hidden"),
        ("?", "its label is hidden"),
        (None, "its label is hidden"),
    ],
)
@pytest.mark.parametrize("target", ["{{label}}", "label"])
def test_a_label_that_names_no_choice_is_told_by_benchmark_and_item(
    tmp_path: Path, label: Any, words: str, target: str
) -> None:
    right: Any = 2
    if isinstance(label, str):  # a column has values of one type
        right = "7" if target == "label" else "2"
    items = [choice(right), choice(right), choice(label)]
    if target == "label" and label == "11":
        words = "a number as text"
    found = said(tmp_path, CHOICE | {"doc_to_target": target}, items)
    assert found.startswith("benchmark 'sums': item mine/2 has no right answer: its label ")
    assert words in found
    assert "\n" not in found


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        (None, "its choices are null or empty"),
        ([], "its choices are null or empty"),
        (["10", ""], "its choice 1 is '', and not a text"),
    ],
)
@pytest.mark.parametrize("place", [0, 2])
@pytest.mark.parametrize("column", ["{{choices}}", "choices"])
def test_choices_that_are_none_are_told_wherever_they_stand(
    tmp_path: Path, choices: Any, words: str, place: int, column: str
) -> None:
    items = [choice(1) for _ in range(3)]
    items[place] = choice(1, choices)
    found = said(tmp_path, CHOICE | {"doc_to_choice": column}, items)
    assert f"item mine/{place} has no right answer: {words}" in found


@pytest.mark.parametrize(
    ("definition", "items"),
    [
        ({}, [choice(0), choice(3)]),
        ({}, [choice("0"), choice("3")]),  # numbers as text, in a template
        ({"doc_to_target": "label"}, [choice("7"), choice("10")]),
        ({"doc_to_choice": ["A", "B", "C", "D"]}, [choice("A"), choice("D")]),
        ({"doc_to_target": "{{'ABCD'.index(label)}}"}, [choice("A"), choice("D")]),
        ({"doc_to_target": "label"}, [choice([0, 2]), choice([1])]),
        ({}, [choice(0, ["3", "3", "4"])]),  # the first of two equal choices can be chosen
    ],
)
def test_right_labels_stay_right(
    tmp_path: Path, definition: dict[str, Any], items: list[dict[str, Any]]
) -> None:
    assert said(tmp_path, CHOICE | definition, items) == ""


@pytest.mark.parametrize("label", [-1, "", "?", "C"])
def test_a_benchmark_without_most_labels_is_refused_whole(tmp_path: Path, label: Any) -> None:
    found = said(tmp_path, CHOICE | {"doc_to_target": "label"}, [choice(label)] * 4)
    assert (
        "benchmark 'sums': 4 of 4 items have no right answer, so no model can answer them" in found
    )
    assert "give `split` with another name" in found


@pytest.mark.parametrize(
    ("target", "item"),
    [
        ("{{answer}}", {"answer": None}),
        ("answer", {"answer": None}),
        ("answer", {"answer": ""}),
        ("{{answer}}", {"answer": " "}),
        ("{{answer}}", {"answer": "?"}),
        ("answer", {"answer": []}),
        ("answer", {"answer": ["", ""]}),
    ],
)
def test_an_empty_answer_in_words_is_told(
    tmp_path: Path, target: str, item: dict[str, Any]
) -> None:
    right = {"answer": ["7", "seven"] if isinstance(item["answer"], list) else "7"}
    found = said(tmp_path, WRITTEN | {"doc_to_target": target}, [right, right, item])
    assert re.match("benchmark 'sums': item mine/2 has no right answer: its (answer|list)", found)


def test_answers_that_only_look_hidden_stay(tmp_path: Path) -> None:
    items = [{"answer": text} for text in ("-1", "None", "null", "0", "no")]
    assert said(tmp_path, WRITTEN, items) == ""
    several = [{"answer": ["7", "seven"]}, {"answer": ["", "8"]}]
    assert said(tmp_path, WRITTEN | {"doc_to_target": "answer"}, several) == ""


def test_others_of_the_kind_are_counted_and_named(tmp_path: Path) -> None:
    items = [choice(1)] * 9 + [choice(4)] * 8
    found = said(tmp_path, CHOICE, items)
    assert "so have 7 others (mine/10, mine/11, mine/12, mine/13, mine/14, ...)" in found
