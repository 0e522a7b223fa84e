"""Results files without rows: copies of one, for making all views takes most of a second."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from dreamer_study.sql import results


def empty_file(path: Path) -> Path:
    """Put a results file without rows at a path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(_content())
    return path


@cache
def _content() -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "results.duckdb"
        results.connect(path).close()
        return path.read_bytes()
