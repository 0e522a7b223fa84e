"""Reading, trace stripping and cleaning that are interrupted go on where they were, and end as if they had not been."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pipeline.clean import clean
from pipeline.sources.stage import read_source
from pipeline.sources.table import resolve_source
from pipeline.storage.documents import DocumentWriter, read_documents, shards
from pipeline.traces.stage import strip_traces
from tests.pipeline.documents import read

FILES = 4
SOURCE = resolve_source({"name": "s", "repository": "o/s", "question": "q", "response": "r"})


class Killed(BaseException):
    """Stands for a signal: nothing in the stages catches it."""


def texts(folder: Path) -> list[dict[str, Any]]:
    return read(folder) + read(folder, "dropped")


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    paths = []
    for number in range(FILES):
        rows = [
            {"q": f"question {number} {i}", "r": f"<think>so</think>\u200bIt is {i}." if i % 5 else ""}
            for i in range(50)
        ]
        paths.append(tmp_path / f"train-{number}.jsonl")
        paths[-1].write_text("\n".join(map(json.dumps, rows)) + "\nnot json\n")
    return paths


def stage(name: str, files: list[Path], folder: Path) -> Callable[..., dict[str, Any]]:
    if name == "read":
        return partial(read_source, SOURCE, files)
    read_source(SOURCE, files, folder / "read")
    with DocumentWriter(folder / "in", shard_bytes=1) as writer:
        for batch in read_documents(folder / "read", batch_rows=50):
            writer.keep(batch)
    return partial({"traces": strip_traces, "clean": clean}[name], folder / "in")


@pytest.mark.parametrize("name", ["read", "traces", "clean"])
def test_an_interrupted_stage_goes_on_where_it_was(name: str, files: list[Path], tmp_path: Path) -> None:
    work = stage(name, files, tmp_path)
    whole = work(tmp_path / "whole")

    def until_half(done: float, words: str) -> None:
        if done >= 0.5:
            raise Killed

    output = tmp_path / "half"
    with pytest.raises(Killed):
        work(output, progress=until_half)
    first = sorted([*shards(output), *shards(output, "dropped")])[0]  # is complete, and stays the very file
    before = first.stat().st_ino
    assert work(output) == whole
    assert first.stat().st_ino == before
    assert texts(output) == texts(tmp_path / "whole")
    names = [path.relative_to(tmp_path / "whole") for path in sorted((tmp_path / "whole").rglob("*"))]
    assert names == [path.relative_to(output) for path in sorted(output.rglob("*"))]


def test_parts_of_other_files_are_not_used(files: list[Path], tmp_path: Path) -> None:
    def at_once(done: float, words: str) -> None:
        if done > 0.3:
            raise Killed

    with pytest.raises(Killed):
        read_source(SOURCE, files, tmp_path / "out", progress=at_once)
    result = read_source(SOURCE, files[1:], tmp_path / "out")
    assert result["rows"] == 51 * (FILES - 1)
    assert texts(tmp_path / "out")[0]["question"] == "question 1 1"
