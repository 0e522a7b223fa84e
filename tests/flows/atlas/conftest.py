"""A world of made-up studies in the place of the package's worlds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.flows.atlas.made_up import made_up_world


@pytest.fixture(scope="session")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of worlds with the world `tiny`."""
    return made_up_world(tmp_path_factory.mktemp("atlas"))
