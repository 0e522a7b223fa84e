"""List the evaluations whose rows have been written to a folder."""

from __future__ import annotations

from pathlib import Path

from pipeline.storage.files import PARTIAL


def finished(output: Path) -> dict[Path, int]:
    """The folders of evaluations that are done, each with what would be another number had it been written again.

    An evaluation has its manifest a moment before its folder gets the final name.
    """
    found = [path.parent for path in output.glob("*/*/*/manifest.json") if path.parent.suffix != PARTIAL]
    return {folder: folder.stat().st_ino for folder in found}
