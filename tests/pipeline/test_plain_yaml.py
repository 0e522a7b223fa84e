"""YAML of somebody else means no more than it shows."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from dreamer_study.flows.study.loading import load_study
from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.plain_yaml import load_plain
from dreamer_study.pipeline.sources.repositories.splits import parse_card
from tests.flows.small_study import TINY

ALIASES = "\n".join(
    ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    + [f"a{row}: &a{row} [{', '.join([f'*a{row - 1}'] * 10)}]" for row in range(1, 12)]
)
BOMBS = {
    "a value of a trillion parts": (ALIASES, "more than 100,000 values"),
    "a list that holds itself": ("a: &a [*a]", "nested more than 100"),
    "a mapping that holds itself": ("a: &a\n  b: *a", "nested more than 100"),
    "3,000 lists": (f"a: {'[' * 3000}{']' * 3000}", "nested too deeply"),
    "150 lists": (f"a: {'[' * 150}{']' * 150}", "nested more than 100"),
}


@pytest.mark.slow
@pytest.mark.parametrize("bomb", BOMBS)
def test_a_text_that_unfolds_to_more_is_refused_in_a_line(tmp_path: Path, bomb: str) -> None:
    text, words = BOMBS[bomb]
    with pytest.raises(yaml.YAMLError, match=words):
        load_plain(text)
    with pytest.raises(InputError, match=words):
        parse_card(f"---\n{text}\n---\nA card.\n")
    path = tmp_path / "study.yaml"
    path.write_text(f"{TINY.read_text()}\nremark:\n  {text.replace(chr(10), chr(10) + '  ')}\n")
    with pytest.raises(InputError, match=words) as error:
        load_study(path)
    assert "\n" not in str(error.value)


@pytest.mark.slow
def test_keys_and_values_are_counted_together() -> None:
    text = "\n".join(f"k{row}: 1" for row in range(60_000))
    with pytest.raises(yaml.YAMLError, match="more than 100,000 values"):
        load_plain(text)


def test_an_alias_is_the_value_that_it_names() -> None:
    assert load_plain("a: &a {b: [1]}\nc: *a\nd: *a") == {name: {"b": [1]} for name in "acd"}
    assert load_plain("") is None
