"""Records of downloads, and of saved data sets, that are cut off, damaged or of a stranger."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.sources.repositories.splits import (
    RECORD,
    Part,
    find_split,
    read_record,
    saved_files,
)

WHOLE = {
    "repository": "a/b",
    "revision": "0123456789",
    "parts": [{"configuration": "default", "split": "train", "files": ["train.jsonl"]}],
}


def write(folder: Path, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / RECORD).write_text(text)
    return folder


def test_a_whole_record_is_read(tmp_path: Path) -> None:
    folder = write(tmp_path / "set", json.dumps(WHOLE))
    (folder / "train.jsonl").write_text("{}\n")
    assert read_record(folder) == WHOLE
    assert find_split(folder, *Part("default", "train", ())) == [folder / "train.jsonl"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        json.dumps(WHOLE)[:30],
        json.dumps({**WHOLE, "revision": None}),
        json.dumps({name: value for name, value in WHOLE.items() if name != "revision"}),
        json.dumps({name: value for name, value in WHOLE.items() if name != "parts"}),
        json.dumps({**WHOLE, "parts": {"default": "train"}}),
        json.dumps({**WHOLE, "parts": [{"configuration": "default", "files": []}]}),
        json.dumps({**WHOLE, "parts": [{"configuration": "d", "split": "t", "files": [1]}]}),
        "[" * 100_000,
        "\x00\x01",
    ],
)
def test_a_damaged_record_is_named_with_the_way_out(tmp_path: Path, text: str) -> None:
    folder = write(tmp_path / "set", text)
    with pytest.raises(InputError) as raised:
        read_record(folder)
    line = str(raised.value)
    assert line.startswith(f"{folder / RECORD} is damaged (")
    assert "remove that file and fetch the data set again" in line
    assert "\n" not in line


def test_a_record_names_no_file_outside_of_its_folder(tmp_path: Path) -> None:
    (tmp_path / "secret.jsonl").write_text("{}\n")
    part = {"configuration": "default", "split": "train", "files": ["../secret.jsonl"]}
    folder = write(tmp_path / "set", json.dumps({**WHOLE, "parts": [part]}))
    with pytest.raises(InputError, match=r"secret\.jsonl"):
        find_split(folder, "default", "train")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("dataset_dict.json", '{"splits": ["tra'),
        ("dataset_dict.json", "[]"),
        ("dataset_dict.json", '{"splits": 3}'),
        ("state.json", ""),
        ("state.json", '{"_data_files": [{}]}'),
        ("state.json", '{"_data_files": 1}'),
    ],
)
def test_damaged_files_of_a_saved_data_set_are_named(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match="is damaged") as raised:
        saved_files(tmp_path, "default", "train")
    assert str(raised.value).startswith(str(tmp_path / name))
