"""Asking a results file."""

from __future__ import annotations

import pytest

from pipeline.errors import InputError
from sql import results
from sql.definitions import FOLDER
from tests.sql.by_hand import one_line


def test_a_query_that_is_refused_says_why_on_one_line(path):
    for sql, said in (("selct 1", "syntax error"), ("from data_eficiency", 'Did you mean "data_efficiency"')):
        with pytest.raises(InputError, match=said) as error:
            results.query(path, sql)
        one_line(error)


def test_tables_lists_everything_with_its_columns_and_what_it_is(path):
    found = results.tables(path).set_index("name")
    assert found.loc["items", "columns"] == "run_id, tokens, task, metric, filter, item_id, value"
    assert found.loc["data_efficiency", "kind"] == "view"
    assert found.loc["tokens_to", ["kind", "columns"]].tolist() == ["macro", "task_name, goal"]
    assert found["description"].notna().all()
    # Every view and table macro has a file of its own.
    files = {file.stem for file in (FOLDER / "views").rglob("*.sql")}
    assert set(found.index[found["kind"] != "table"]) == files
