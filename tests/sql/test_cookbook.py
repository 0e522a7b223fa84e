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


SEEDS = (0, 1, 2)


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    path = empty_file(tmp_path_factory.mktemp("cookbook") / "results.duckdb")
    random = np.random.default_rng(0)
    accuracy = np.linspace(0.2, 0.7, 6)
    for seed in SEEDS:
        enter_scores(
            path,
            {
                variant: {
                    task: {n * 1000 * 10: random.random(50) < a for n, a in enumerate(accuracy, 1)} for task in "tu"
                }
                for variant in ("LA", "DR")
            },
            seed=seed,
        )
    usage = [
        {
            "run_id": f"s-{variant}-{seed}",
            "tokens": 60_000,
            "depth": depth,
            "expert": expert,
            "selections": 1 + expert * skew * (1 + seed),
        }
        for seed in SEEDS
        for variant, skew in (("LA", 10), ("DR", 0))
        for depth in (1, 2)
        for expert in range(8)
    ]
    kept = {"study_id": "s", "source": "a", "stage": "clean", "reason": "kept", "documents": 5, "characters": 9}
    tables = {"studies": [{"study_id": "s", "baseline": "LA"}], "expert_usage": usage, "curation": [kept]}
    results.ingest(path, {table: pa.Table.from_pylist(rows) for table, rows in tables.items()})
    with results.connect(path) as connection:
        compute_statistics(connection, "s", replicates=50)
    return path


def test_every_question_has_an_answer(database):
    page = answered(PAGE.read_text(), database)
    assert len(QUERY.findall(page)) == 11
    answers = re.findall(r"```text\n(.*?)```", page, re.DOTALL)
    assert len(answers) == 11
    # The ninth looks for what is wrong.
    assert [number for number, answer in enumerate(answers) if answer == "(no rows)\n"] == [9]
    # And the answers of the page itself, of another results file, have made way for these.
    assert page.count("```") == PAGE.read_text().count("```") == 48


def answer(database, number):
    return results.query(database, QUERY.findall(PAGE.read_text())[number])  # the first lists what there is


def test_items_that_one_model_solves_are_counted_over_all_pairs_of_seeds(database):
    solved = results.query(database, "from items join runs using (run_id) where items.tokens = 60000")
    found = answer(database, 7)
    assert list(zip(found["variant"], found["task"], found["items"], strict=True)) == [("DR", "t", 50), ("DR", "u", 50)]
    for row in found.itertuples():
        scores = {
            name: solved[(solved["task"] == row.task) & (solved["model_id"] == name)].pivot(
                index="item_id", columns="seed", values="value"
            )
            for name in ("LA", "DR")
        }
        pairs = [(scores["LA"][a], scores["DR"][b]) for a in SEEDS for b in SEEDS]
        for column, la, it in (("both_right", 1, 1), ("only_it", 0, 1), ("only_la", 1, 0)):
            counted = np.mean([((theirs == la) & (own == it)).sum() for theirs, own in pairs])
            assert getattr(row, column) == pytest.approx(counted)


def test_the_use_of_experts_has_a_row_for_each_model_and_depth(database):
    found = answer(database, 10)
    assert list(zip(found["variant"], found["depth"], strict=True)) == [("DR", 1), ("DR", 2), ("LA", 1), ("LA", 2)]
    layered = "select avg(gini) as mean from expert_gini where depth is null and variant = 'LA'"
    assert found["gini_of_the_model"].iloc[-1] == pytest.approx(results.query(database, layered)["mean"][0])
    assert found["gini_of_the_model"].iloc[0] == 0


def test_a_query_without_an_answer_gets_one_and_an_old_one_goes(database):
    asked = "# A question\n\n```sql\nselect 1 as one, 'a' as name;\n```\n"
    page = f"{asked}\n```text\none  name\n  1  a\n```\n\nAnd more.\n"
    assert answered(f"{asked}\nAnd more.\n", database) == page
    assert answered(page, database) == page
    with pytest.raises(InputError, match="query refused"):
        answered("```sql\nselect nothing;\n```\n", database)
