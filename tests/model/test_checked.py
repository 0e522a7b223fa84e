"""Settings from JSON: every mistake is one line that names the field and its value."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from model.checked import Count, FileName, checked, read_object
from pipeline.errors import InputError


@checked("sizes")
class Sizes:
    width: int
    depth: Count | None = None
    name: FileName = "a"


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"width": 3, "dephts": 2}, ["dephts is", "did you mean depth?"]),
        ({"width": 3, "colour": 2}, ["colour is", "width, depth, name"]),
        ({"width": True}, ["width is True"]),
        ({"width": "3"}, ["width is '3'"]),
        ({"width": 3, "depth": 0}, ["depth is 0"]),
        ({"width": 3, "depth": 2**63}, [f"depth is {2**63}"]),
        ({"width": 3, "name": "../b"}, ["name is '../b'"]),
        ({}, ["width is missing"]),
    ],
)
def test_mistakes_are_named(values: dict[str, Any], said: list[str]) -> None:
    with pytest.raises(InputError) as error:
        Sizes(**values)
    assert str(error.value).startswith("sizes.")
    assert all(words in str(error.value) for words in said)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("text", ["{", "\udcff", "[" * 100_000])
def test_a_file_that_is_no_json(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(InputError, match=r"x\.json: not valid JSON"):
        read_object(path)
    path.write_text("[1]")
    with pytest.raises(InputError, match=r"x\.json holds \[1\], but it must be an object"):
        read_object(path)
