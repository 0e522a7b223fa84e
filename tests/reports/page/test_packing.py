"""What is packed comes out again, and is harmless in a page."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

import pytest
import vl_convert
from hypothesis import given
from hypothesis import strategies as st

from reports.page.packing import packed, packed_library, unpacked


@given(st.text())
def test_packed_text_comes_out_again_and_cannot_end_a_script_element(text: str) -> None:
    made = packed(text)
    assert re.fullmatch(r"[A-Za-z0-9+/=]*", made)
    assert unpacked(made) == text
    assert packed(text) == made


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(vl_convert, "javascript_bundle", lambda: "the library")
    return tmp_path / "cache"


def test_the_library_is_bundled_once_for_all_processes_of_a_user(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    anew = packed_library.__wrapped__  # as another process would ask
    assert unpacked(anew()) == "the library"
    monkeypatch.setattr(vl_convert, "javascript_bundle", lambda: "another one")
    assert unpacked(anew()) == "the library"
    assert [path.suffix for path in cache.rglob("*") if path.is_file()] == [".txt"]


def damaged(library: bytes) -> list[bytes]:
    """Copies of which a disk kept other bytes or only a part."""
    half = library[: len(library) // 2]
    return [b"\xff", b"", half, half[:-1], library[:-8], b"</script>" + library]


@pytest.mark.parametrize("place", range(len(damaged(b""))))
def test_a_damaged_copy_of_the_library_is_made_anew(cache: Path, place: int) -> None:
    whole = packed_library.__wrapped__()
    (copy,) = cache.rglob("*.txt")
    copy.write_bytes(damaged(whole.encode())[place])
    assert packed_library.__wrapped__() == whole
    assert copy.read_text() == whole


def test_a_copy_that_others_may_have_written_is_not_used(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed_library.__wrapped__()
    (copy,) = cache.rglob("*.txt")
    assert copy.parent.stat().st_mode & 0o777 == 0o700
    copy.write_text(packed("another script"))
    assert unpacked(packed_library.__wrapped__()) == "another script", "a user's own copy is used"
    copy.chmod(0o620)
    assert unpacked(packed_library.__wrapped__()) == "the library"
    copy.write_text(packed("another script"))
    monkeypatch.setattr(os, "getuid", lambda: copy.stat().st_uid + 1)
    assert unpacked(packed_library.__wrapped__()) == "the library"


def test_a_copy_is_used_whatever_files_of_the_user_allow(cache: Path, bundled: list[str]) -> None:
    before = os.umask(0)
    try:
        packed_library.__wrapped__()
        packed_library.__wrapped__()
    finally:
        os.umask(before)
    assert bundled == ["once"]


@pytest.fixture
def bundled(cache: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A list that gets an entry each time that the library is bundled."""
    made: list[str] = []
    monkeypatch.setattr(vl_convert, "javascript_bundle", lambda: made.append("once") or "the library")
    return made


def test_the_library_is_bundled_once_without_a_cache(cache: Path, bundled: list[str]) -> None:
    cache.write_text("a file where the folder would be")
    assert unpacked(packed_library.__wrapped__()) == "the library"
    assert bundled == ["once"]


def test_a_full_disk_keeps_no_part_of_a_copy(cache: Path, bundled: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def write_half(path: Path, text: str, **options: str) -> int:
        path.write_bytes(text.encode()[: len(text) // 2])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", write_half)
    assert unpacked(packed_library.__wrapped__()) == "the library"
    assert bundled == ["once"]
    assert [path for path in cache.rglob("*") if path.is_file()] == []
