"""A limit asks a sample of a task's items, the same one for every model."""

from __future__ import annotations

import pytest

from dreamer_study.model.evaluation.sampled_items import sampled_items


@pytest.mark.parametrize("task", ["mathqa", "gsm8k", "mine/part"])
def test_a_sample_is_spread_over_the_task_and_grows_with_the_limit(task: str) -> None:
    small, large = (sampled_items(task, 1000, limit) for limit in (20, 100))
    assert sampled_items(task, 1000, 20) == small == sorted({*small})
    assert len(small) == 20
    assert {*small} < {*large}
    assert sum(number >= 500 for number in large) == pytest.approx(50, abs=20)
    assert large != list(range(100))


def test_tasks_have_samples_of_their_own_and_no_limit_asks_all() -> None:
    assert sampled_items("a", 1000, 20) != sampled_items("b", 1000, 20)
    for limit in (None, 5, 7):
        assert sampled_items("a", 5, limit) == [0, 1, 2, 3, 4]
