"""The page of questions: every query runs on a small results file, and its output lands below it."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from pipeline.errors import InputError
from sql import results
from sql.cookbook import QUERY, answered
from sql.statistics.compute import compute_statistics
from tests.sql.by_hand import enter_scores
from tests.sql.empty import empty_file

PAGE = Path(__file__).resolve().parents[2] / "docs" / "sql.md"


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    path = empty_file(tmp_path_factory.mktemp("cookbook") / "results.duckdb")
    random = np.random.default_rng(0)
    accuracy = np.linspace(0.2, 0.7, 6)
    enter_scores(
        path,
        {
            variant: {task: {n * 1000 * 10: random.random(50) < a for n, a in enumerate(accuracy, 1)} for task in "tu"}
            for variant in ("LA", "DR")
        },
    )
    usage = [
        {
            "run_id": f"s-{variant}-0",
            "tokens": 60_000,
            "depth": depth,
            "expert": expert,
            "selections": 1 + expert * skew,
        }
        for variant, skew in (("LA", 10), ("DR", 0))
        for depth in (1, 2)
        for expert in range(8)
    ]
    kept = {"study_id": "s", "source": "a", "stage": "clean", "reason": "kept", "documents": 5, "characters": 9}
    tables = {"studies": [{"study_id": "s"}], "expert_usage": usage, "curation": [kept]}
    results.ingest(path, {table: pa.Table.from_pylist(rows) for table, rows in tables.items()})
    with results.connect(path) as connection:
        compute_statistics(connection, "s", replicates=50)
    return path


def test_every_question_has_an_answer(database):
    page = answered(PAGE.read_text(), database)
    assert len(QUERY.findall(page)) == 10
    answers = re.findall(r"```text\n(.*?)```", page, re.DOTALL)
    assert len(answers) == 10
    # The ninth looks for what is wrong.
    assert [number for number, answer in enumerate(answers, 1) if answer == "(no rows)\n"] == [9]
    # And the answers of the page itself, of another results file, have made way for these.
    assert page.count("```") == PAGE.read_text().count("```") == 40


def test_a_query_without_an_answer_gets_one_and_an_old_one_goes(database):
    asked = "# A question\n\n```sql\nselect 1 as one, 'a' as name;\n```\n"
    page = f"{asked}\n```text\none  name\n  1  a\n```\n\nAnd more.\n"
    assert answered(f"{asked}\nAnd more.\n", database) == page
    assert answered(page, database) == page
    with pytest.raises(InputError, match="query refused"):
        answered("```sql\nselect nothing;\n```\n", database)
