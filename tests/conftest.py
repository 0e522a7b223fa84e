"""Settings of all tests."""

import gc
import os
from collections.abc import Iterator
from contextlib import suppress

import pytest
from hypothesis import settings

from tests.one_name import bare_modules

# as in trainers and evaluators: sums over two threads are rounded otherwise
os.environ["OMP_NUM_THREADS"] = "1"

# No width of a terminal, to which the commands that tests start would fold their lines. Importing
# readline, as debuggers do, sets one that `os.environ` does not show; the import comes here once.
with suppress(ImportError):
    import readline  # noqa: F401
os.environ.pop("COLUMNS", None)
os.unsetenv("COLUMNS")

# a slow machine is no failure of what is tested
settings.register_profile("shared-machines", deadline=None)
settings.load_profile("shared-machines")

# 800,000 objects are made while tests are collected, and all of them stay: the collector of cycles
# would look through them again and again.
gc.disable()


def pytest_collection_finish() -> None:
    """Collect cycles among what the tests make, but not among what was there before them."""
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True, scope="module")
def only_the_one_name() -> Iterator[None]:
    """Fail a file of tests after which a folder of ours is imported by its bare name.

    Here such an import works, since the project's folder is on the path of the tests; a user of an
    installed copy gets somebody else's package, or none.
    """
    yield
    bare = bare_modules()
    assert not bare, f"imported without `dreamer_study.`: {', '.join(bare)}"
