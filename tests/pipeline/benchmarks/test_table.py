"""Entries of benchmarks are checked when they are resolved."""

import dataclasses
import json

import pytest

from pipeline.benchmarks.table import BENCHMARKS, resolve_benchmark
from pipeline.errors import InputError

MINE = {"name": "x", "repository": "a/b"}


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("gms8k", "no benchmark 'gms8k'; did you mean 'gsm8k'"),
        (MINE | {"task": "t", "metrik": "acc"}, "unknown key 'metrik'; did you mean 'metric'"),
        ({"name": "x", "task": "t", "metric": "acc"}, "repository must be given"),
        ({"name": "x", "repository": "a", "task": "t", "metric": "acc"}, "of the form owner/name"),
        (MINE | {"metric": "acc"}, "name lm-eval's task"),
        (MINE | {"task": "t"}, "metric must be given"),
        (MINE | {"task": "t", "metric": "acc", "chance": 25}, "chance must be a number from 0"),
        (MINE | {"task": "t", "tasks": {"c": "t"}}, "give either tasks or task"),
        (MINE | {"text": "t", "metric": "acc"}, "metric of a text must be one of"),
        (MINE | {"task": "t", "metric": "acc", "rows": 5}, "rows is for the perplexity"),
        (MINE | {"text": "t", "rows": 0}, "rows must be a whole number above 0"),
        (MINE | {"text": "t[", "rows": 1}, "'t\\[' is no SQL expression"),
        ({"name": "gsm8k", "revision": "main"}, "revision must be a commit .*, not 'main'"),
        ({"name": "gsm8k", "metric": None}, "metric must be given"),
    ],
)
def test_a_bad_entry_is_refused_in_one_line(entry, message):
    with pytest.raises(InputError, match=message) as error:
        resolve_benchmark(entry)
    assert "\n" not in str(error.value)


def test_an_entry_with_a_name_of_the_table_changes_only_what_it_says():
    changed = resolve_benchmark({"name": "gsm8k", "filter": "strict-match"})
    assert changed == dataclasses.replace(BENCHMARKS["gsm8k"], filter="strict-match")
    for benchmark in BENCHMARKS.values():
        assert resolve_benchmark(json.loads(json.dumps(dataclasses.asdict(benchmark)))) == benchmark


def test_a_null_stands_for_the_default_of_a_field():
    changed = resolve_benchmark({"name": "gsm8k", "revision": None, "filter": None, "repository": None, "task": None})
    assert changed == dataclasses.replace(BENCHMARKS["gsm8k"], revision=None, filter="none")
    text = {"name": "x", "repository": "a/b", "text": "t"}
    assert resolve_benchmark(text | {"metric": None, "rows": None}) == resolve_benchmark(text)
