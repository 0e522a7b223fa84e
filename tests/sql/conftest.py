"""Results files for the tests: one for a module, emptied before each test, and one for each
test."""

from __future__ import annotations

import pytest

from dreamer_study.sql import results
from tests.sql.empty import empty_file


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    connection = results.connect(empty_file(tmp_path_factory.mktemp("views") / "results.duckdb"))
    yield connection
    connection.close()


@pytest.fixture
def sql(database):
    """A writing connection to a results file without rows."""
    declared = {"benchmarks", "metrics", "schema_version"}
    for (table,) in database.execute("select table_name from duckdb_tables()").fetchall():
        if table not in declared:
            database.execute(f"delete from {table}")
    return database


@pytest.fixture
def path(tmp_path):
    """The path of a results file without rows."""
    return empty_file(tmp_path / "study" / "results.duckdb")


@pytest.fixture
def new_path(tmp_path):
    """The path of a results file that does not exist yet."""
    return tmp_path / "study" / "results.duckdb"
