"""One results file for the tests of a module, emptied before each."""

from __future__ import annotations

import pytest

from sql import results


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
