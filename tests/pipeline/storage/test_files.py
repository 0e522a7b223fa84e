"""Atomic writes, of which readers see no part; locks with one holder or several that share; amounts of memory."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from pipeline.errors import InputError
from pipeline.storage.files import atomic_file, atomic_folder, replace_folder, write_text_atomically
from pipeline.storage.locks import try_lock
from pipeline.storage.parallel import memory_bytes


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("durable", [False, True])
def test_a_file_is_replaced_whole(tmp_path: Path, shared: bool, durable: bool) -> None:
    path = tmp_path / "a.json"
    write_text_atomically(path, "old", shared=shared, durable=durable)
    with suppress(KeyError), atomic_file(path, shared=shared, durable=durable) as partial:
        partial.write_text("ha")
        assert path.read_text() == "old"
        assert partial.suffix == ".partial"
        raise KeyError
    assert path.read_text() == "old"
    write_text_atomically(path, "ü", shared=shared, durable=durable)
    assert path.read_bytes() == "ü".encode()
    assert list(tmp_path.iterdir()) == [path]


def test_two_writers_of_one_file_do_not_meet(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with atomic_file(path, shared=True) as one, atomic_file(path, shared=True) as two:
        one.write_text("one")
        two.write_text("two")
    assert path.read_text() == "one"  # the outer one is renamed after the inner one
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_appears_when_it_is_full(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    (tmp_path / "a" / "b.partial" / "left over").mkdir(parents=True)
    with suppress(KeyError), atomic_folder(folder) as partial:
        assert not list(partial.iterdir())
        raise KeyError
    assert not list((tmp_path / "a").iterdir())
    with atomic_folder(folder) as partial:
        (partial / "deep").mkdir()
        (partial / "deep" / "file").write_text("x")
        assert not folder.exists()
    assert (folder / "deep" / "file").read_text() == "x"
    assert list((tmp_path / "a").iterdir()) == [folder]


def test_a_folder_with_content_is_not_overwritten(tmp_path: Path) -> None:
    for name in ("partial", "final"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    with pytest.raises(OSError, match="not empty"):
        replace_folder(tmp_path / "partial", tmp_path / "final")


def test_a_lock_excludes_others_until_the_file_is_closed_and_shared_ones_each_other_not(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with path.open("w") as first, path.open() as second:
        assert try_lock(first)
        assert not try_lock(second)
        assert not try_lock(second, shared=True)
    with path.open() as third, path.open() as fourth:
        assert try_lock(third)
        assert try_lock(third, shared=True)
        assert try_lock(fourth, shared=True)
        assert not try_lock(third)


def test_amounts_in_powers_of_1000_and_1024() -> None:
    assert memory_bytes("1.5GB") == 1_500_000_000
    assert memory_bytes("2 MiB") == 2 * 2**20
    with pytest.raises(InputError, match="4GB"):
        memory_bytes("much")
