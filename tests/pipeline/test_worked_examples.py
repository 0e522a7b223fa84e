"""The worked examples in the docstrings of text, dedup and decontaminate give what they say."""

import doctest
from importlib import import_module

import pytest

MODULES = [
    "text.words",
    "text.ngrams",
    "text.arrays",
    "dedup.exact",
    "dedup.minhash",
    "dedup.contradictions",
    "dedup.clusters",
    "text.lookalikes",
    "decontaminate.agreement",
    "decontaminate.omissions",
    "decontaminate.inverted_index",
    "decontaminate.frequencies",
    "decontaminate.scan",
]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    result = doctest.testmod(import_module(f"pipeline.{name}"))
    assert result.attempted
    assert not result.failed
