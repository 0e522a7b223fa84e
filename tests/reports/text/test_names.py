"""Names and lists of names keep to a length."""

from __future__ import annotations

from dreamer_study.reports.text.names import cut, shortest
from dreamer_study.reports.text.numbers import bests


def test_long_words_are_cut_in_the_middle_and_keep_their_ends() -> None:
    name = "mmlu_flan_cot_zeroshot_stem_and_humanities_philosophy_form_7"
    short = cut(name)
    assert len(short) == 34
    assert name.startswith(short.split("…")[0])
    assert name.endswith(short.split("…")[1])
    assert cut(f"{name} at depth 4") == f"{short} at depth 4"
    words = "a name of several short words that is long in all"
    assert cut(words) == words


def test_of_many_models_the_best_and_the_worst_are_named() -> None:
    models = [(f"V{number}", f"{90 - number}%", "at 1M tokens") for number in range(7)]
    assert bests(models) == (
        "of 7 models the best is V0 90% at 1M tokens, the worst V6 84% at 1M tokens"
    )
    assert bests(models[:2]) == "V0 90% and V1 89%, each at 1M tokens"


def test_long_names_are_shortened_to_what_differs() -> None:
    names = ["LA", "run-adamw-lr-search", "run-muon-lr-search", "run-soap-lr-search"]
    assert list(shortest(names, 14).values()) == ["LA", "…adamw…", "…muon…", "…soap…"]
    assert shortest(["LA", "a-very-long-name-of-one"], 14)["a-very-long-name-of-one"] == (
        "a-very…-of-one"
    )
    alike = ["run-run-run-run-run", "run-run-run-run-run-run"]
    assert len(set(shortest(alike, 14).values())) == 2
