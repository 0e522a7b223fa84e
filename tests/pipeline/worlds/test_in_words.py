"""What a benchmark of the built-in world asks, in a sentence."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from dreamer_study.pipeline.worlds.in_words import world_task
from dreamer_study.pipeline.worlds.settings import WorldSettings
from dreamer_study.pipeline.worlds.tasks import WORLD_BENCHMARKS

SETTINGS = asdict(WorldSettings(operations=3, modulus=7, recall_pairs=9, longest=6))


@pytest.mark.parametrize("name", WORLD_BENCHMARKS)
def test_every_benchmark_has_a_sentence_without_gaps(name: str) -> None:
    sentence = world_task(name, SETTINGS)
    assert sentence.endswith(".")
    assert "{" not in sentence


def test_a_sentence_has_the_numbers_of_the_settings() -> None:
    assert "up to 3 operations modulo 7" in world_task("world_expressions", SETTINGS)
    assert "9 pairs of a key and a value" in world_task("world_recall", SETTINGS)
    assert "of 1 to 3 steps" in world_task("world_short", SETTINGS)
    assert "of 4 to 6 steps" in world_task("world_long", SETTINGS)


def test_nothing_is_said_of_what_is_not_known() -> None:
    assert world_task("gsm8k", SETTINGS) == ""
    assert world_task("world_expressions", {}) == ""
    assert world_task("world_short", {}) == ""
