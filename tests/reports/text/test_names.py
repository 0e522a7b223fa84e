"""Names and lists of names keep to a length, and different names stay different."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dreamer_study.reports.text.names import (
    LONGEST,
    ShortNames,
    architecture_in_words,
    layers_of,
    short_names,
    shortened,
    shortest,
    shortest_of_kinds,
)
from dreamer_study.reports.text.numbers import bests

PARTS = st.sampled_from(["mmlu", "high_school", "x" * 20, "a", "ab", "…", "…1", "7", "lr", ""])
NAMES = st.one_of(
    st.text(max_size=60),
    st.lists(PARTS, min_size=1, max_size=12).map("-".join),
    st.lists(PARTS, min_size=1, max_size=12).map("".join),
)
FEWEST = 6  # characters: room for one of the name, a mark, and numbers of four digits


@pytest.mark.slow
@given(st.lists(NAMES, unique=True, max_size=30), st.integers(FEWEST, 50))
def test_names_that_differ_are_shown_apart_within_the_width(names: list[str], most: int) -> None:
    shown = shortest(names, most)
    assert list(shown) == names
    assert len(set(shown.values())) == len(names)
    assert all(len(text) <= most for text in shown.values())
    assert all(shown[name] == name for name in names if len(name) <= most)


@pytest.mark.slow
@given(st.lists(st.lists(NAMES, max_size=12), max_size=3), st.integers(FEWEST, 50))
def test_names_of_several_kinds_are_shown_apart(kinds: list[list[str]], most: int) -> None:
    shown = shortest_of_kinds(kinds, most)
    assert set(shown) == {name for kind in kinds for name in kind}
    assert len(set(shown.values())) == len(shown)


@pytest.mark.parametrize(
    ("names", "most"),
    [
        ([f"same-beginning-{'x' * 30}-{place}" for place in range(12)], 12),
        ([f"{place}-{'x' * 30}-same-end" for place in range(12)], 12),
        (["x" * 60, f"{'x' * 30}y{'x' * 29}"], 20),
    ],
)
def test_what_differs_at_one_place_is_shown_at_any_width(names: list[str], most: int) -> None:
    texts = list(shortest(names, most).values())
    assert len(set(texts)) == len(names)
    assert max(map(len, texts)) <= most


def long_name(kind: str) -> str:
    return f"transformer-352M-matched-{kind}-rate-searched-seeds-averaged"


def test_long_words_are_cut_in_the_middle_and_keep_their_ends() -> None:
    name = "mmlu_flan_cot_zeroshot_stem_and_humanities_philosophy_form_7"
    short = short_names()
    text = short(name)
    assert len(text) == LONGEST
    assert name.startswith(text.split("…")[0])
    assert name.endswith(text.split("…")[1])
    assert short(f"{name} at depth 4") == f"{text} at depth 4"
    words = "a name of several short words that is long in all"
    assert short(words) == words


def test_a_page_shows_a_name_alike_wherever_the_name_stands() -> None:
    one, other = long_name("gated-deltanet"), long_name("mamba2-hybrid")
    short = short_names([one, other, "LA"], ["gsm8k"])
    assert short(f"{other}: at most 1.20x, {one}’s best ({one})") == (
        "…mamba2-hybrid…: at most 1.20x, …gated-deltanet…’s best (…gated-deltanet…)"
    )
    assert short(f"{one}-4-s0") == "…gated-deltanet…-4-s0"


def test_a_variant_and_a_benchmark_never_share_a_text() -> None:
    variants = [f"run-{'v' * 40}-{kind}-end" for kind in ("adam", "muon")]
    tasks = [f"task-{'t' * 40}-{kind}-end" for kind in ("adam", "muon")]
    shown = short_names(variants, tasks).shown
    assert len(set(shown.values())) == 4


def test_a_name_within_another_does_not_hide_the_longer_one() -> None:
    name = "a" * (LONGEST + 1)
    longer = f"{name}-and-more"
    short = ShortNames({name: "one", longer: "other"})
    assert short(f"{longer} {name}") == "other one"


def test_of_many_models_the_best_and_the_worst_are_named() -> None:
    models = [(f"V{number}", f"{90 - number}%", "at 1M tokens") for number in range(7)]
    assert bests(models) == (
        "of 7 models the best is V0 90% at 1M tokens, the worst V6 84% at 1M tokens"
    )
    assert bests(models[:2]) == "V0 90% and V1 89%, each at 1M tokens"


def test_long_names_are_shortened_to_what_differs() -> None:
    names = ["LA", "run-adamw-lr-search", "run-muon-lr-search", "run-soap-lr-search"]
    assert list(shortest(names, 14).values()) == ["LA", "run-adamw…", "run-muon…", "run-soap…"]
    assert shortest(["LA", "a-very-long-name-of-one"], 14)["a-very-long-name-of-one"] == (
        "a-very…-of-one"
    )
    alike = ["run-run-run-run-run", "run-run-run-run-run-run"]
    assert len(set(shortest(alike, 14).values())) == 2


def test_little_that_differs_keeps_the_part_before() -> None:
    names = [f"mmlu_flan_cot_zeroshot_subject_{number}_form_continuation" for number in (10, 11)]
    assert list(shortest(names, LONGEST).values()) == ["…subject_10…", "…subject_11…"]


@pytest.mark.parametrize(
    ("config", "words", "layers"),
    [
        (
            {"recurrent": False, "depth_attention": False, "depth": 4},
            "a layer of its own for each depth",
            "4",
        ),
        (
            {"recurrent": True, "depth_attention": True, "depth": 4},
            "one layer used at every depth, attention over depths",
            "1, used 4 times",
        ),
        (
            {"recurrent": True, "depth_attention": False, "depth": 4, "prelude": 1, "coda": 0},
            "one layer used 3 times, between 1 and 0 of their own",
            "1, and 1 used 3 times",
        ),
        (
            {"recurrent": False, "depth_attention": False, "depth": 4, "expert_pool": True},
            "a layer of its own for each depth, one pool of experts for all layers",
            "4",
        ),
        ({"module": "my_models.py:GPT"}, "my_models.py:GPT", "–"),
        (None, "", "–"),
    ],
)
def test_each_variant_is_said_by_its_configuration_and_not_by_its_name(
    config: Any, words: str, layers: str
) -> None:
    text = config and json.dumps(config)
    assert (architecture_in_words(text), layers_of(text)) == (words, layers)


def test_a_question_is_shortened_to_its_end_at_a_word() -> None:
    assert shortened("recall " + "a b ; " * 30 + "c", "7") == (
        "… " + ("a b ; " * 30 + "c")[-99:],
        "7",
    )
    assert shortened("1 + 1?", "2") == ("1 + 1?", "2")
