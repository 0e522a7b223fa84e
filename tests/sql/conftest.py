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
    for table in ("studies", "models", "runs", "evaluations", "curation", "expert_usage", "factor_intervals"):
        database.execute(f"delete from {table}")
    return database
