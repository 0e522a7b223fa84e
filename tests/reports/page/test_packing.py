"""What is packed comes out again, and is harmless in a page."""

from __future__ import annotations

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


def test_the_library_is_there_without_a_cache(cache: Path) -> None:
    cache.write_text("a file where the folder would be")
    assert unpacked(packed_library.__wrapped__()) == "the library"
