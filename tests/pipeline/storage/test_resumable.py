"""Stages that are killed go on from their finished shards, and end with the same bytes as if
nothing had happened."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dreamer_study.pipeline.decontaminate.decontaminate import decontaminate
from dreamer_study.pipeline.decontaminate.settings import DecontaminationSettings
from dreamer_study.pipeline.dedup.deduplicate import deduplicate
from dreamer_study.pipeline.dedup.settings import DedupSettings
from dreamer_study.pipeline.errors import InputError
from tests.full_disk import no_space
from tests.pipeline.decontaminate.items import item_table
from tests.pipeline.documents import read, table, write

pytestmark = pytest.mark.slow

SHARDS = 4


def corpus(folder: Path, rows: int = 4000) -> pa.Table:
    """Documents with near duplicates in some shards, under `folder`/in; returns items of which some
    are in them."""
    draw = random.Random(0)
    words = [
        "".join(draw.choice("abcdefghijkl") for _ in range(draw.randint(2, 8))) for _ in range(2000)
    ]
    texts: list[str] = []
    for _ in range(rows):
        if texts and draw.random() < 0.2:
            pieces = draw.choice(texts).split()
            pieces[draw.randrange(len(pieces))] = draw.choice(words)
        else:
            pieces = draw.choices(words, k=80)
        texts.append(" ".join(pieces))
    for number in range(SHARDS):
        part = table((text, "So.") for text in texts[number::SHARDS])
        ids = [f"s/{row}" for row in range(number, rows, SHARDS)]
        write(folder / "in", part.set_column(0, "id", pa.array(ids)), prefix=f"{number}-")
    questions = [" ".join(text.split()[:40]) for text in texts[:60]]
    return item_table([(question, "") for question in questions], "b")


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def run(stage: str, folder: Path, name: str, items: pa.Table, **options: Any) -> dict[str, bytes]:
    if stage == "deduplicate":
        deduplicate([folder / "in"], folder / name, DedupSettings(), **options)
    else:
        decontaminate(folder / "in", folder / name, items, DecontaminationSettings(), **options)
    return contents(folder / name)


def stop_at(calls: int) -> Callable[[float, str], None]:
    """Listen to progress, and end the work at so many calls."""
    heard = []

    def stop(fraction: float, words: str) -> None:
        heard.append(words)
        if len(heard) == calls:
            raise KeyboardInterrupt

    return stop


# Calls of progress: all is signed, one shard is written, three are.
@pytest.mark.parametrize(
    ("stage", "ends"), [("deduplicate", (2, SHARDS + 1, SHARDS + 3)), ("decontaminate", (1, 3))]
)
def test_interrupted_it_goes_on_from_finished_shards_to_the_same_bytes(
    tmp_path: Path, stage: str, ends
) -> None:
    """How kills and losses of power end is in tests/faults/test_power_loss.py."""
    items, finished = corpus(tmp_path, 400), {}
    for calls in ends:
        with pytest.raises(KeyboardInterrupt):
            run(stage, tmp_path, "out", items, progress=stop_at(calls))
        parts = [
            *(tmp_path / "out").rglob("bands/*.parquet"),
            *(tmp_path / "out" / "documents").glob("*.parquet"),
        ]
        assert all(path.stat().st_ino == inode for path, inode in finished.items()), (
            "finished work was done again"
        )
        finished = {path: path.stat().st_ino for path in parts}
    assert finished
    assert run(stage, tmp_path, "out", items) == run(stage, tmp_path, "undisturbed", items)


@pytest.mark.parametrize("stage", ["deduplicate", "decontaminate"])
def test_processes_write_the_same_bytes(tmp_path: Path, stage: str) -> None:
    items = corpus(tmp_path)
    assert run(stage, tmp_path, "one", items) == run(stage, tmp_path, "two", items, processes=2)


@pytest.mark.parametrize("stage", ["deduplicate", "decontaminate"])
def test_a_full_disk_is_one_line_and_nothing_is_lost(tmp_path: Path, stage: str) -> None:
    items = corpus(tmp_path, 1500)
    expected = run(stage, tmp_path, "undisturbed", items)
    largest = max(map(len, expected.values()))
    said = r"disk is full.*finished shards are kept"
    with no_space(largest - 1000), pytest.raises(InputError, match=said) as stopped:
        run(stage, tmp_path, "out", items)
    assert "\n" not in str(stopped.value)
    assert not list((tmp_path / "out").rglob("*.partial"))
    for path in (tmp_path / "out").rglob("*.parquet"):
        if "matches" not in path.name:
            pq.read_metadata(path)  # what has its name is whole
    assert run(stage, tmp_path, "out", items) == expected


def test_parts_of_other_settings_are_not_taken(tmp_path: Path) -> None:
    items, settings = corpus(tmp_path, 400), DedupSettings(threshold=0.9)
    with pytest.raises(KeyboardInterrupt):
        deduplicate([tmp_path / "in"], tmp_path / "out", settings, progress=stop_at(SHARDS + 1))
    assert list((tmp_path / "out" / "unfinished").glob("signed-0/bands/*"))
    assert list((tmp_path / "out" / "documents").glob("*"))
    deduplicate([tmp_path / "in"], tmp_path / "out", DedupSettings())
    assert contents(tmp_path / "out") == run("deduplicate", tmp_path, "undisturbed", items)

    settings = DecontaminationSettings()
    with pytest.raises(KeyboardInterrupt):
        decontaminate(
            tmp_path / "in", tmp_path / "clean", items.slice(0, 1), settings, progress=stop_at(1)
        )
    decontaminate(tmp_path / "in", tmp_path / "clean", items, settings)
    decontaminate(tmp_path / "in", tmp_path / "expected", items, settings)
    assert contents(tmp_path / "clean") == contents(tmp_path / "expected")


def test_killed_while_parts_are_removed_it_ends_with_the_same_bytes(
    tmp_path: Path, monkeypatch
) -> None:
    items = corpus(tmp_path, 400)
    real = shutil.rmtree

    def half(folder: Path, **options: bool) -> None:
        if folder.name != "unfinished" or not folder.exists():
            real(folder, **options)
            return
        (folder / "matches-0.parquet").unlink()
        raise KeyboardInterrupt

    with monkeypatch.context() as killed:
        killed.setattr(shutil, "rmtree", half)
        with pytest.raises(KeyboardInterrupt):
            run("decontaminate", tmp_path, "out", items)
    assert run("decontaminate", tmp_path, "out", items) == run(
        "decontaminate", tmp_path, "undisturbed", items
    )


def test_documents_of_ten_megabytes_and_ids_that_repeat(tmp_path: Path) -> None:
    draw = random.Random(1)
    words = ["".join(draw.choice("abcdefghijkl") for _ in range(6)) for _ in range(5000)]
    giant = " ".join(draw.choices(words, k=1_400_000))
    item = " ".join(giant.split()[700_000:700_030])
    assert len(giant) > 9.5e6
    texts = [
        ("What?", giant),
        ("What?", giant + " more"),
        ("Why?", "So."),
        ("When?", "Now."),
        ("", ""),
    ]
    write(tmp_path / "in", table(texts).set_column(0, "id", pa.array([*"aabbc"])))
    deduplicate([tmp_path / "in"], tmp_path / "unique", DedupSettings(), memory="500MB")
    survivors = [row["row"] for row in read(tmp_path / "unique")]
    assert survivors == [1, 2, 3, 4], (
        "the longer giant survives; one id on two documents drops neither"
    )
    decontaminate(
        tmp_path / "unique", tmp_path / "clean", item_table([(item, "")]), DecontaminationSettings()
    )
    assert [row["row"] for row in read(tmp_path / "clean")] == [2, 3, 4]
