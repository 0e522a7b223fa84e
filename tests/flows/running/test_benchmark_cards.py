"""The card of a benchmark: its floor, the ratio that it can show, and what there is to read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from dreamer_study.flows.running.benchmark_cards import benchmark_cards, best_trivial

FLOORS = {"empty answer": 0.0, "most frequent answer": 0.2}


def card(
    task: dict[str, Any], known: dict[str, Any] | None, *, seeds: int = 4, limit: int | None = None
) -> dict[str, Any]:
    """The card of one own benchmark of a study."""
    output = SimpleNamespace(done=known is not None, results={"benchmarks": {"mine": known}})
    own = SimpleNamespace(name="mine", tasks={"main": "mine"})
    study = SimpleNamespace(
        study_id="s",
        own_benchmarks=[own],
        evaluation=SimpleNamespace(limit=limit),
        training=SimpleNamespace(
            seeds=tuple(range(seeds)), stop_at=lambda _: False, seeds_until=None
        ),
    )
    plan: Any = SimpleNamespace(
        study=study,
        tasks=[{"benchmark": "mine", "metric": "acc", **task}],
        data=SimpleNamespace(ceilings={"mine": output}),
    )
    (row,) = benchmark_cards(plan)
    return row


def known(items: int, floors: dict[str, float] = FLOORS) -> dict[str, Any]:
    return {
        "items": items,
        "floors": floors,
        "frequent": "7",
        "read": 350 * items,
        "written": 10 * items,
    }


def test_the_floor_is_guessing_or_the_best_rule() -> None:
    found = card({"chance": 0.25}, known(100))
    assert (found["floor"], found["floor_rule"]) == (0.25, "guessing")
    found = card({"chance": 0.1}, known(100))
    assert (found["floor"], found["floor_rule"]) == (0.2, "most frequent answer")
    assert (found["empty_answer"], found["first_choice"]) == (0.0, None)


def test_without_any_score_there_is_no_floor() -> None:
    found = card({"chance": None}, known(100, {}))
    assert (found["floor"], found["floor_rule"]) == (None, None)


def test_a_store_from_before_has_guessing_alone() -> None:
    found = card({"chance": 0.25}, None)
    assert (found["floor"], found["tokens"], found["detectable"]) == (0.25, None, None)
    older = {"items": 100, "failed": 0, "ceiling": 1.0}
    found = card({"chance": 0.25}, older)
    assert (found["floor"], found["tokens"]) == (0.25, None)


def test_rules_of_the_world_count_where_they_score_more() -> None:
    assert best_trivial({"trivial": 0.3}, known(100)) == (0.3, "answer from the prompt")
    assert best_trivial({"trivial": 0.2}, known(100)) == (0.2, "most frequent answer")
    assert best_trivial({}, {}) == (None, "")


def test_tokens_grow_with_the_items_that_are_asked() -> None:
    whole = card({}, known(1000))
    assert whole["tokens"] == 1000 * (350 / 3.5 + 10)
    assert card({}, known(1000), limit=100)["tokens"] == whole["tokens"] / 10
    assert card({}, known(1000), limit=5000)["tokens"] == whole["tokens"]


def test_more_items_or_seeds_detect_smaller_ratios() -> None:
    few, many = (card({}, known(items))["detectable"] for items in (100, 3000))
    assert 1 < many < few
    assert card({}, known(100), seeds=8)["detectable"] < few
    assert card({}, known(3000), limit=100)["detectable"] == pytest.approx(few)


def test_one_seed_detects_no_ratio() -> None:
    assert card({}, known(100), seeds=1)["detectable"] is None
