"""Files that other processes remove meanwhile count as absent."""

from __future__ import annotations

from pathlib import Path

from flows.watching.looks import folder_size, found_in, written_at


def test_what_has_vanished_counts_as_absent(tmp_path: Path) -> None:
    (tmp_path / "gone").symlink_to("nowhere")  # listed, and not there when it is looked at
    (tmp_path / "here").write_text("12345")
    assert folder_size(tmp_path) == 5
    assert written_at(tmp_path / "gone") is None
    assert found_in(tmp_path / "here", "*") == found_in(tmp_path / "gone", "*") == []
