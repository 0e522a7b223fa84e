"""The store: finished folders are found, half-written ones are not, and keys follow what decides a
result."""

import dataclasses
import json
import os
import random
import socket
import time
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.storage import locks, store
from dreamer_study.pipeline.storage.digests import digest, file_digest
from dreamer_study.pipeline.storage.integrity import read_manifest
from dreamer_study.pipeline.storage.store import Output, Store
from tests.full_disk import no_space
from tests.pipeline.documents import read, table, write


def write_one(folder: Path) -> dict[str, int]:
    (folder / "a.txt").write_text("one")
    return {"files": 1}


def output_of(root: Path, configuration: dict[str, int] | None = None) -> Output:
    """An output of the stage `s` that is still to be made."""
    decided = configuration or {}
    key = Store.key("s", 1, decided)
    return Output("s", key, root / "s" / key, 1, decided, ())


def test_builds_once_and_finds_again(tmp_path: Path) -> None:
    calls = []
    store, first = Store(tmp_path), output_of(tmp_path, {"x": 1})
    assert not first.done
    for _ in range(2):
        store.build(first, lambda folder: (calls.append(folder), write_one(folder))[1])
    assert len(calls) == 1
    assert first.done
    again = output_of(tmp_path, {"x": 1})
    assert again.results == {"files": 1}
    assert (first.path / "a.txt").read_text() == "one"
    assert not list(tmp_path.glob("s/*.partial"))
    manifest = json.loads((first.path / "manifest.json").read_text())
    assert manifest["files"]["a.txt"] == {"bytes": 3, "blake2b": file_digest(first.path / "a.txt")}


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"key": "another"}'])
def test_a_damaged_manifest_is_named(tmp_path: Path, content: str) -> None:
    store = Store(tmp_path)
    store.build(output_of(tmp_path), write_one)
    output = output_of(tmp_path)
    (output.path / "manifest.json").write_text(content)
    with pytest.raises(
        InputError, match=r"manifest.json is damaged.*; `dreamer verify STUDY --repair`"
    ):
        store.build(output, write_one)


@pytest.mark.parametrize("resumes", [False, True])
def test_an_output_without_its_manifest_is_made_again(tmp_path: Path, resumes: bool) -> None:
    store, output = Store(tmp_path), output_of(tmp_path)
    store.build(output, write_one)
    (output.path / "manifest.json").unlink()
    store.build(output, write_one, resumes=resumes)
    assert output.results == {"files": 1}


def flip(path: Path) -> None:
    """Change one bit in the middle of a file, and keep the file's size and time."""
    before, content = path.stat(), bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("as_input", [True, False])
def test_changed_files_of_an_output_are_seen_before_they_are_used(
    tmp_path: Path, as_input: bool
) -> None:
    store, read = Store(tmp_path), output_of(tmp_path)
    store.build(read, write_one)
    file = read.path / "a.txt"
    damages = {
        "other content": lambda: flip(file),
        "has 5 bytes, not 3": lambda: file.write_text("three"),
        "is missing": file.unlink,
    }
    made = [output_of(tmp_path, {"number": number}) for number in range(len(damages) + 1)]
    made = [dataclasses.replace(output, inputs=(read.name,) if as_input else ()) for output in made]
    store.build(made.pop(), write_one, uses=() if as_input else [read])
    for output, (words, damaging) in zip(made, damages.items(), strict=True):
        damaging()
        with pytest.raises(
            InputError, match=rf"a\.txt .*{words}.*; `dreamer verify STUDY --repair`"
        ):
            store.build(output, write_one, uses=() if as_input else [read])
        assert not output.done
        file.write_text("one")
    store.build(made[0], write_one)
    file.unlink()
    store.build(read, write_one)
    store.build(made[0], write_one)  # what is done and not read is not looked at


def test_a_flipped_bit_anywhere_in_a_manifest_is_seen(tmp_path: Path) -> None:
    store, output = Store(tmp_path), output_of(tmp_path, {"x": 10})
    store.build(output, lambda folder: {"counts": {3: 17, 20: 4}})
    path = output.path / "manifest.json"
    content = path.read_bytes()
    assert read_manifest(output.path)["results"] == {"counts": {"3": 17, "20": 4}}
    for place in range(len(content)):
        path.write_bytes(bytes([*content[:place], content[place] ^ 1, *content[place + 1 :]]))
        if path.read_bytes().split() != content.split():
            with pytest.raises(InputError, match="is damaged"):
                read_manifest(output.path)


def test_who_waits_for_another_process_says_for_whom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "PATIENCE_SECONDS", 0.3)
    marks, told = tmp_path / "marks", []
    process = start_building(tmp_path / "store", marks, 1.5)
    while not marks.exists():
        time.sleep(0.01)
    Store(tmp_path / "store", tell=told.append).build(output_of(tmp_path / "store"), write_one)
    (line,) = told
    assert f"is being made by process {process.pid} on {socket.gethostname()}" in line


def test_key_follows_configuration_version_stage_and_inputs() -> None:
    keys = [
        Store.key("s", 1, {"x": 1}, ["before/a"]),
        Store.key("s", 1, {"x": 2}, ["before/a"]),
        Store.key("s", 2, {"x": 1}, ["before/a"]),
        Store.key("t", 1, {"x": 1}, ["before/a"]),
        Store.key("s", 1, {"x": 1}, ["before/b"]),
        Store.key("s", 1, {"x": 1}, []),
    ]
    assert len(set(keys)) == len(keys)
    assert Store.key("s", 1, {"x": 1, "y": 2}, []) == Store.key("s", 1, {"y": 2, "x": 1}, [])


@pytest.mark.parametrize("resumes", [False, True])
def test_failed_work_leaves_no_output_and_starts_empty_unless_it_resumes(
    tmp_path: Path, resumes: bool
) -> None:
    store, output = Store(tmp_path), output_of(tmp_path)

    def fail(folder: Path) -> None:
        (folder / "half").write_text("h")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.build(output, fail, resumes=resumes)
    assert not output.done
    store.build(output, write_one, resumes=resumes)
    assert (output.path / "half").exists() == resumes


def build_slowly(root: Path, marks: Path, seconds: float) -> None:
    def work(_: Path) -> None:
        with marks.open("a") as file:
            file.write("start")
        time.sleep(seconds)

    Store(root).build(output_of(root), work)


def start_building(*arguments: Any) -> BaseProcess:
    process = get_context("spawn").Process(target=build_slowly, args=arguments)
    process.start()
    return process


@pytest.mark.slow
def test_processes_sharing_a_store_do_the_work_once(tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    processes = [start_building(tmp_path / "store", marks, 0.5) for _ in range(3)]
    for process in processes:
        process.join(600)
        assert process.exitcode == 0
    assert marks.read_text().count("start") == 1


def test_digest_is_stable_across_machines() -> None:
    assert digest({"b": [1, 2.5, None], "a": "ü"}) == digest({"a": "ü", "b": [1, 2.5, None]})
    assert digest("x") == "6d6f773a11561dcc"


def test_digests_of_large_files_are_kept_until_the_file_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "LARGE", 10)
    large, small = tmp_path / "large", tmp_path / "small"
    large.write_text("0123456789")
    small.write_text("012")
    first = Store(tmp_path / "store")
    assert [first.file_digest(path) for path in (large, small)] == [
        file_digest(path) for path in (large, small)
    ]
    (kept,) = (tmp_path / "store" / "digests").iterdir()
    kept.write_text("5" * 32)
    assert Store(tmp_path / "store").file_digest(large) == "5" * 32  # so it has not been read
    with pytest.raises(InputError, match="large was changed, while its size and time stayed"):
        first.check_files([small, large], [file_digest(small), "5" * 32])  # now it is
    assert first.file_digest(large) == file_digest(large)
    kept.unlink()
    kept.mkdir()  # in the way
    assert first.file_digest(large) == file_digest(large)
    os.utime(large, ns=(1, 1))
    assert first.file_digest(large) == file_digest(large)
    large.write_text("9876543210")
    assert first.file_digest(large) == file_digest(large)


def test_a_full_disk_is_one_line_and_the_next_attempt_has_everything(tmp_path: Path) -> None:
    store, output = Store(tmp_path), output_of(tmp_path)
    rows = table((random.randbytes(50_000).hex(), "So.") for _ in range(40))

    def work(folder: Path) -> None:
        write(folder, rows)

    with no_space(100_000), pytest.raises(InputError, match=r"the disk is full \(File too large\)"):
        store.build(output, work)
    assert not output.done
    store.build(output, work)
    assert len(read(output.path)) == 40
