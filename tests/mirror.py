"""Public rows for tests: a mirror of data sets beside the project's folder, which not every machine
has."""

from __future__ import annotations

from pathlib import Path

import pytest

MIRROR = Path(__file__).resolve().parents[2] / "shared" / "mirror"
needs_mirror = pytest.mark.skipif(
    not MIRROR.is_dir(), reason="the mirror of public rows is not here"
)
