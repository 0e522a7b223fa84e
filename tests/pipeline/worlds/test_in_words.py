"""What a benchmark of the built-in world asks, in a sentence."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from dreamer_study.pipeline.worlds.in_words import world_task
from dreamer_study.pipeline.worlds.settings import WorldSettings
from dreamer_study.pipeline.worlds.tasks import WORLD_BENCHMARKS

# No two settings are equal, so that a number in the place of another one is seen.
SETTINGS = asdict(WorldSettings()) | {
    "shortest": 1,
    "longest": 6,
    "operations": 13,
    "modulus": 17,
    "questions": 19,
    "recall_pairs": 23,
    "chain_tables": 29,
    "chain_pairs": 31,
    "moves": 37,
}
SENTENCES = {
    "world_choice": "Sums told in words, of 1 to 6 steps: the likeliest of four numbers.",
    "world_text": "Stories with their solutions: how likely every word is.",
    "world_short": "Sums told in words, of 1 to 3 steps: the number at the end.",
    "world_long": "Sums told in words, of 4 to 6 steps: the number at the end.",
    "world_expressions": "Arithmetic: prefix expressions of up to 13 operations modulo 17; the value"
    " of the last of 19 on a sheet.",
    "world_recall": "Recall: 23 pairs of a key and a value, then 19 keys; the value of the last"
    " key.",
    "world_chain": "Chain: 29 tables of 31 pairs, each leading on to the next; where a symbol leads"
    " in up to 29 steps.",
    "world_tracking": "Tracking: numbers, up to 37 before each of 19 questions; the sum so far"
    " modulo 17.",
}


@pytest.mark.parametrize("name", WORLD_BENCHMARKS)
def test_every_benchmark_has_its_sentence_with_the_numbers_of_the_settings(name: str) -> None:
    assert world_task(name, SETTINGS) == SENTENCES[name]


def test_nothing_is_said_of_what_is_not_known() -> None:
    assert world_task("gsm8k", SETTINGS) == ""
    assert world_task("world_expressions", {}) == ""
    assert world_task("world_short", {}) == ""
