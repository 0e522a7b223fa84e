"""The ceiling of a benchmark: its gold answers go through its own scorer."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dreamer_study.model.evaluation import ceilings
from dreamer_study.model.evaluation.ceilings import Ceiling, score_gold_answers
from dreamer_study.pipeline.benchmarks.items import task_specifications
from dreamer_study.pipeline.benchmarks.table import BENCHMARKS
from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.sources.columns.answers import last_boxed
from dreamer_study.pipeline.worlds.settings import WorldSettings
from dreamer_study.pipeline.worlds.tasks import world_specifications
from dreamer_study.pipeline.worlds.world import write_world
from tests.model.evaluation.evaluation_world import write_data

pytestmark = pytest.mark.slow

FLEXIBLE = {
    "filter_list": [
        {
            "name": "last",
            "filter": [
                {
                    "function": "regex",
                    "group_select": -1,
                    "regex_pattern": "(-?[$0-9.,]{2,})|(-?[0-9]+)",
                },
                {"function": "take_first"},
            ],
        }
    ]
}
HARD = ["0,1", "$9{,}500", "72, altogether", r"\[ \boxed{42} \]", r"5 \text{ cm}", "72", "-3"]


def own_task(
    folder: Path,
    items: list[dict[str, Any]],
    definition: dict[str, Any],
    code: str = "",
    **measures: str,
) -> dict[str, Any]:
    """The specification of a task of your own, whose files lie in the folder."""
    place = write_data(folder / "data", "default", test=items)
    path = folder / "mine.yaml"
    common = {
        "task": "mine",
        "test_split": "test",
        "doc_to_text": "{{question}}",
        "doc_to_target": "{{answer}}",
        "output_type": "generate_until",
        "generation_kwargs": {"until": ["\n"], "do_sample": False},
        "metric_list": [{"metric": "exact_match"}],
    }
    text = json.dumps({**common, **definition})
    if code:
        (folder / "own.py").write_text(code)
        text = text.replace('"FUNCTION"', "!function own.score")
    path.write_text(text)
    return {
        "benchmark": "sums",
        "task": "mine",
        "dataset_path": str(place),
        "yaml": str(path),
        "metric": "exact_match",
        "filter": "none",
        **measures,
    }


def measured(
    folder: Path,
    items: list[dict[str, Any]],
    definition: dict[str, Any],
    read_answer: Callable[[str], str] = str.strip,
    **measures: str,
) -> Ceiling:
    specification = own_task(folder, items, definition, **measures)
    return score_gold_answers({"sums": [specification]}, read_answer=read_answer)["sums"]


def answers(*texts: str) -> list[dict[str, Any]]:
    return [{"question": f"q{number}", "answer": text} for number, text in enumerate(texts)]


def test_gold_answers_that_the_scorer_does_not_know_are_listed(tmp_path: Path) -> None:
    found = measured(tmp_path, answers(*HARD), FLEXIBLE, filter="last")
    assert found.items == 7
    failed = {item: (gold, reason) for item, gold, reason in found.failed}
    assert failed == {f"mine/{number}": (HARD[number], "scored 0") for number in (1, 2, 3, 4)}
    assert found.share == pytest.approx(3 / 7)
    assert found.table()["item_id"].to_pylist() == list(failed)


def test_plain_answers_are_at_the_ceiling_and_a_blank_before_them_is_told(tmp_path: Path) -> None:
    found = measured(tmp_path, answers(*HARD), {})
    assert (found.share, found.failed, found.needs_stripping) == (1.0, [], True)
    steps = [{"function": "remove_whitespace"}, {"function": "take_first"}]
    stripped = {"filter_list": [{"name": "strip", "filter": steps}]}
    (tmp_path / "other").mkdir()
    found = measured(tmp_path / "other", answers(*HARD), stripped, filter="strip")
    assert (found.share, found.needs_stripping) == (1.0, False)


def test_an_answer_behind_a_stop_string_cannot_be_written(tmp_path: Path) -> None:
    found = measured(tmp_path, answers("7", "7\n8"), {})
    assert found.failed == [("mine/1", "7\n8", "scored 0")]


def test_the_first_of_several_right_answers_is_right(tmp_path: Path) -> None:
    items = [{"question": "q", "answer": ["7", "seven"]}, {"question": "r", "answer": ["8"]}]
    found = measured(tmp_path, items, {"doc_to_target": "answer"})
    assert (found.items, found.share) == (2, 1.0)


def test_a_choice_is_right_by_its_label_alone(tmp_path: Path) -> None:
    definition = {
        "output_type": "multiple_choice",
        "doc_to_choice": "{{choices}}",
        "doc_to_target": "{{label}}",
        "metric_list": [{"metric": "acc"}, {"metric": "acc_norm"}],
    }
    rows = [("3 4 5", 1), ("3 4 4", 1), ("3 4 4", 2), ("3 40 500", 0)]
    items = [
        {"question": "q", "choices": choices.split(), "label": label} for choices, label in rows
    ]
    for metric in ("acc", "acc_norm"):
        found = measured(tmp_path, items, definition, metric=metric)
        assert found.items == 4
        # the second of two equal choices is never the first likeliest
        assert [item for item, *_ in found.failed] == ["mine/2"]


def test_trivial_rules_choose_by_place_and_length(tmp_path: Path) -> None:
    definition = {
        "output_type": "multiple_choice",
        "doc_to_choice": "{{choices}}",
        "doc_to_target": "{{label}}",
        "metric_list": [{"metric": "acc"}, {"metric": "acc_norm"}],
    }
    rows = [("3 44 555", 2), ("3 44 555", 0), ("44 3 555", 0), ("1 44 2", 1)]
    items = [
        {"question": "q", "choices": choices.split(), "label": label} for choices, label in rows
    ]
    for metric in ("acc", "acc_norm"):
        found = measured(tmp_path, items, definition, metric=metric)
        assert found.floors == {
            "first choice": 0.5,
            "last choice": 0.25,
            "longest choice": 0.5,
            "shortest choice": 0.25,
            "most frequent answer": 0.5,
        }
        assert found.frequent == "44"
        assert found.written == 0
        assert found.read > 0


def test_an_answer_that_is_often_right_and_an_empty_one_have_a_score(tmp_path: Path) -> None:
    found = measured(tmp_path, answers("7", "7", "8", "x"), FLEXIBLE, filter="last")
    # x is no number: the filter finds none in the gold answer, so that no answer is right
    assert found.floors == {"empty answer": 0.0, "most frequent answer": 0.5}
    assert found.frequent == "7"
    assert found.written == 4 * 256


def test_the_frequent_answer_of_a_solution_is_the_one_that_is_read(tmp_path: Path) -> None:
    texts = (r"so \boxed{7}", r"then \boxed{7}", r"and \boxed{9}", "w" * 300)
    found = measured(
        tmp_path, answers(*texts), {}, read_answer=lambda text: last_boxed(text) or text
    )
    assert found.frequent == "7"
    assert found.floors["most frequent answer"] == 0.5
    assert sum(found.answers.values()) == 3  # a solution without an answer is not counted


SLOW = """
import time

def score(doc, results):
    if doc["answer"] == "hangs":
        while True:
            try:
                time.sleep(60)
            except BaseException:
                pass
    if doc["answer"] == "raises":
        raise ValueError("no such unit")
    if doc["answer"] == "kills":
        import os
        os._exit(9)
    return {"exact_match": int(results[0] == doc["answer"])}
"""


def test_a_scorer_that_hangs_raises_or_dies_costs_its_own_item_only(tmp_path: Path) -> None:
    own_scorer = {"process_results": "FUNCTION"}
    texts = {
        "first": ["1", "2"],
        "hard": ["1", "hangs", "raises", "2", "kills", "3"],
        "ends": ["1", "2", "kills"],
        "last": ["1", "raises"],
    }
    tasks = {
        name: [own_task(tmp_path / name, answers(*texts[name]), own_scorer, SLOW)] for name in texts
    }
    told: list[tuple[float, str]] = []
    found = score_gold_answers(
        tasks,
        trust_code=True,
        item_seconds=3,
        progress=lambda fraction, words: told.append((fraction, words)),
    )
    assert {name: ceiling.items for name, ceiling in found.items()} == {
        name: len(each) for name, each in texts.items()
    }
    failed = {
        name: [(item, reason) for item, _, reason in ceiling.failed]
        for name, ceiling in found.items()
    }
    assert failed == {
        "first": [],
        "hard": [
            ("mine/1", "took longer than 3 s"),
            ("mine/2", "ValueError: no such unit"),
            ("mine/4", "ended the process that scores"),
        ],
        "ends": [("mine/2", "ended the process that scores")],
        "last": [("mine/1", "ValueError: no such unit")],
    }
    fractions = [fraction for fraction, _ in told]
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1


def test_a_task_whose_items_end_too_many_processes_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ceilings, "MOST_ENDED", 2)
    own_scorer = {"process_results": "FUNCTION"}
    bad = own_task(tmp_path / "bad", answers("kills", "kills", "1", "2"), own_scorer, SLOW)
    good = own_task(tmp_path / "good", answers("1"), own_scorer, SLOW)
    found = score_gold_answers({"bad": [bad], "good": [good]}, trust_code=True)
    given_up = "not scored, as 2 items before ended the process"
    reasons = ["ended the process that scores", given_up, given_up, given_up]
    assert [reason for *_, reason in found["bad"].failed] == reasons
    assert (found["bad"].items, found["good"].share) == (4, 1.0)


def test_a_metric_that_the_task_does_not_have_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no metric 'exact' with filter 'none'; it has"):
        measured(tmp_path, answers("1"), {}, metric="exact")
    with pytest.raises(InputError, match=r"item mine/1 has no right answer"):
        measured(tmp_path, answers("1", "", "2"), {})


# --- the benchmarks that ship ---

MATH_SOLUTIONS = [
    r"So it is $\boxed{2}$.",
    r"So $x = \boxed{\frac{1}{2}}$.",
    r"Both are roots: $\boxed{0,1}$.",
    r"Together \[ \boxed{42} \]",
    r"It is $\boxed{5 \text{ cm}}$ long.",
    r"It costs $\boxed{\$9{,}500}$.",
    r"The point is $\boxed{(3, -4)}$.",
    r"That is $\boxed{\text{even}}$.",
    r"In all $[\boxed{2}, 5)$ and so $\boxed{[2,5)}$.",
    r"It is $\boxed{x^2+3x-1}$.",
]
GSM8K = ["72 = 72\n#### 72", "9 * 1000 + 500\n#### 9,500", "So -3.\n#### -3", "Half.\n#### 0.5"]


def shipped_rows(name: str) -> list[dict[str, Any]]:
    if name == "gsm8k":
        return [{"question": "q", "answer": text} for text in GSM8K]
    if name == "mmlu_math":
        return [
            {"question": "q", "subject": "s", "choices": ["1", "2", "3", "4"], "answer": number}
            for number in range(4)
        ]
    if name == "mathqa":
        options = "a ) 38 , b ) 27.675 , c ) 30 , d ) data inadequate , e ) none of these"
        return [
            {"Problem": "p", "options": options, "correct": letter, "Rationale": "r"}
            for letter in "abcde"
        ]
    return [
        {"problem": "p", "level": "Level 1", "type": "t", "solution": text}
        for text in MATH_SOLUTIONS
    ]


EXCEPTIONS: dict[str, list[str]] = {}


@pytest.mark.parametrize("name", [name for name in BENCHMARKS if not BENCHMARKS[name].text])
def test_every_benchmark_that_ships_is_at_its_ceiling(tmp_path: Path, name: str) -> None:
    benchmark = BENCHMARKS[name]
    configuration, task = next(iter(benchmark.tasks.items()))
    folder = write_data(tmp_path / "data", configuration, test=shipped_rows(name))
    specifications = task_specifications(
        benchmark.__class__(**{**vars(benchmark), "tasks": {configuration: task}}),
        folder,
        tmp_path,
    )
    found = score_gold_answers({"all": specifications})["all"]
    assert found.items == len(shipped_rows(name))
    assert [gold for _, gold, _ in found.failed] == EXCEPTIONS.get(name, [])


def test_the_built_in_benchmarks_are_at_their_ceiling(tmp_path: Path) -> None:
    write_world(tmp_path, WorldSettings(documents=60, items=4))
    specifications = [
        each for each in world_specifications(tmp_path) if each["benchmark"] != "world_text"
    ]
    found = score_gold_answers({"all": specifications})["all"]
    assert (found.share, found.items) == (1.0, 4 * len(specifications))
    assert not found.needs_stripping
