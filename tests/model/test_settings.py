"""Settings from JSON: every mistake is one line that names the field, its value and the rule."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from model.settings import check_fields, check_rules, field_types, read_object, required_fields
from pipeline.errors import InputError


@dataclass(frozen=True)
class Sizes:
    width: int
    depth: int | None = None
    names: tuple[int, ...] = ()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"width": 3, "dephts": 2}, r"^sizes: there is no field 'dephts'; did you mean depth\?$"),
        ({"width": 3, "colour": 2}, r"^sizes: there is no field 'colour'; known are width, depth, names$"),
        ({"width": True}, "^sizes.width is True, but it must be a whole number$"),
        ({"width": 3, "depth": 0}, "^sizes.depth is 0, but it must be a whole number of at least 1, or null$"),
        ({"width": 3, "names": [1, "2"]}, r"^sizes.names is \[1, '2'\], but it must be a list of whole numbers$"),
        ({}, "^sizes.width is missing$"),
    ],
)
def test_mistakes_are_named(values: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_fields(values, field_types(Sizes), "sizes", required_fields(Sizes))


def test_rules_name_field_and_value() -> None:
    with pytest.raises(InputError, match=r"^/a/file\.json: width is 9, but it must be small$"):
        check_rules(Sizes(9), "/a/file.json", [("width", (1).__eq__, "must be small")])


@pytest.mark.parametrize("text", ["{", "\udcff", "[" * 100_000])
def test_a_file_that_is_no_json(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(InputError, match=r"x\.json: not valid JSON"):
        read_object(path)
    path.write_text("[1]")
    with pytest.raises(InputError, match=r"x\.json holds \[1\], but it must be an object"):
        read_object(path)
