"""Files of plain items: what is read, and what is refused by file and line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from model.evaluation.tasks import PlainTask, read_items
from pipeline.errors import InputError

ITEM = {"id": "a", "prompt": "?", "target": "7"}


def test_files_of_items(tmp_path: Path) -> None:
    path = tmp_path / "items.jsonl"
    given = {"benchmark": "b", "task": "t", "metric": "acc", "filter": "none", "plain": str(path)}
    with pytest.raises(InputError, match="no such file of items"):
        PlainTask(given)
    path.write_text("")
    with pytest.raises(InputError, match="holds no item"):
        PlainTask(given)
    path.write_text('{"id": "a", "prompt": "?", "target": "7"}\n{"id": "b"}\n')
    with pytest.raises(InputError, match="line 2: not an item"):
        PlainTask(given)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"target": 7}, "target is 7"),
        ({"prompt": None}, "prompt is None"),
        ({"id": 3}, "id is 3"),
        ({"target": 1, "choices": ["6", "7"]}, "target is 1"),
        ({"target": "B", "choices": ["6", "7"]}, "target is 'B', but it must be one of the choices"),
        ({"choices": [6, 7]}, "choices.0 is 6"),
        ({"choices": ["7", ""]}, "choices.1 is ''"),
        ({"until": 3}, "until.* is 3"),
        ({"until": "\n", "max_new_tokens": "9"}, "max_new_tokens is '9'"),
        ({}, "id is 'a' as in line 1; give every item its own id"),
    ],
)
def test_an_item_that_cannot_be_scored_is_named_by_file_and_line(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "items.jsonl"
    path.write_text(f"{json.dumps(ITEM)}\n{json.dumps({**ITEM, **changes})}\n")
    with pytest.raises(InputError, match=rf"items\.jsonl, line 2: .*{message}"):
        read_items(path)


def test_one_stop_string_may_stand_alone(tmp_path: Path) -> None:
    lines = [{**ITEM, "id": str(number), "until": until} for number, until in enumerate(("Question:", ["\n", "."]))]
    path = tmp_path / "items.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    task = PlainTask({"benchmark": "b", "task": "t", "metric": "exact_match", "filter": "none", "plain": str(path)})
    assert [settings.until for _, settings in task.requests["generate_until"]] == [("Question:",), ("\n", ".")]


def test_only_a_line_feed_ends_an_item(tmp_path: Path) -> None:
    """Characters that end a line elsewhere are text in JSON."""
    path, texts = tmp_path / "items.jsonl", [f"one{mark}two" for mark in "\u2028\u2029\u0085"]
    lines = [json.dumps({**ITEM, "id": text, "target": text}, ensure_ascii=False) for text in texts]
    path.write_text("\r\n".join(lines), newline="")
    assert [item["target"] for item in read_items(path)] == texts
