"""Results files for the tests: one for a module, emptied before each test, and copies of an empty one."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from sql import results


@pytest.fixture(scope="session")
def empty_file(tmp_path_factory) -> Callable[[Path], Path]:
    """Puts a results file without rows at a path: a copy, for making all views takes a third of a second."""
    original = tmp_path_factory.mktemp("empty") / "results.duckdb"
    results.connect(original).close()
    return lambda path: Path(shutil.copy(original, path))


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    connection = results.connect(tmp_path_factory.mktemp("views") / "results.duckdb")
    yield connection
    connection.close()


@pytest.fixture
def sql(database):
    """A writing connection to a results file without rows."""
    declared = {"benchmarks", "metrics", "stages", "schema_version"}
    for (table,) in database.execute("select table_name from duckdb_tables()").fetchall():
        if table not in declared:
            database.execute(f"delete from {table}")
    return database


@pytest.fixture
def path(tmp_path):
    """The path of a results file that does not exist yet."""
    return tmp_path / "study" / "results.duckdb"
