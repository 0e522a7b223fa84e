"""What names stand for, in words."""

from __future__ import annotations

from reports.text.names import parts_in_words


def test_parts_of_names_are_said_once() -> None:
    said = parts_in_words(["LA", "DR", "DR+DA · demo"])
    assert [said.count(part) for part in ("LA: ", "DR: ", "DA: ")] == [1, 1, 1]
    assert parts_in_words(["LA"]) == "LA: a layer of its own for each depth."
    assert parts_in_words(["gpt2"]) == ""
