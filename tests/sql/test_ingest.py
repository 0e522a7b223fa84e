"""Inserting rows into a results file: what replaces what, and what is refused."""

from __future__ import annotations

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.errors import InputError
from sql import results
from sql.ingest import replace_computed
from tests.full_disk import no_space
from tests.sql.by_hand import ITEM, count, items, one_line, rows


def test_entering_twice_changes_nothing(path, tmp_path):
    pq.write_table(items(5), tmp_path / "items.parquet")
    tables = {
        "studies": rows({"study_id": "s", "name": "first", "created_at": "2026-01-01 12:00:00"}),
        "evaluations": rows({**ITEM, "value": 0.5}),
        "items": [tmp_path / "items.parquet"],
        "curation": rows({"study_id": "s", "source": "a", "stage": "clean", "reason": "kept", "tokens": None}),
    }
    for _ in range(2):
        assert results.ingest(path, tables) == {"studies": 1, "evaluations": 1, "items": 5, "curation": 1}
        assert [count(path, table) for table in tables] == [1, 1, 5, 1]


def test_a_row_entered_again_replaces_only_the_columns_given(path):
    results.ingest(path, {"runs": rows({"study_id": "s", "run_id": "r", "seed": 3, "status": "running"})})
    results.ingest(path, {"runs": rows({"run_id": "r", "study_id": "s", "status": "complete"})})
    assert results.query(path, "select seed, status from runs").values.tolist() == [[3, "complete"]]


def test_of_several_rows_with_one_key_the_last_counts(path, tmp_path):
    for name, loss in (("b", 2.0), ("a", 1.0)):
        pq.write_table(rows({"run_id": "r", "step": 1, "tokens": 5, "loss": loss}), tmp_path / f"{name}.parquet")
    results.ingest(path, {"steps": [tmp_path / "b.parquet", tmp_path / "a.parquet"]})
    assert results.query(path, "select loss from steps")["loss"].tolist() == [1.0]
    results.ingest(path, {"items": pa.concat_tables([items(3, 0.0), items(3, 1.0)])})
    assert results.query(path, "select value from items")["value"].tolist() == [1.0, 1.0, 1.0]


def test_items_replace_those_of_their_evaluation_and_no_others(path):
    results.ingest(path, {"items": pa.concat_tables([items(5), items(4, tokens=20), items(3, metric="acc_norm")])})
    results.ingest(path, {"items": items(2, 0.0)})
    left = results.query(path, "select tokens, metric, count(*) as n from items group by all order by all")
    assert left.values.tolist() == [[10, "acc", 2], [10, "acc_norm", 3], [20, "acc", 4]]


def test_nothing_to_enter_is_fine(path):
    assert results.ingest(path, {"items": [], "studies": pa.Table.from_pylist([])}) == {"items": 0, "studies": 0}


@pytest.mark.parametrize(
    ("table", "given", "said"),
    [
        ("evaluation", {}, "no table 'evaluation'.*nearest: 'evaluations'"),
        ("studies", {"study_id": "s", "nam": "x"}, "studies: no column 'nam'.*nearest: 'name'"),
        ("steps", {"run_id": "r", "loss": 1.0}, "steps: the key column 'step' is missing"),
        ("studies", {"study_id": None, "name": "x"}, "studies: rows refused: .*NULL"),
        ("items", {**ITEM, "item_id": None, "value": 1.0}, "items: rows refused: .*NULL"),
        ("evaluations", {**ITEM, "value": "much"}, "evaluations: rows refused: .*much"),
        ("evaluations", {**ITEM, "task": "average", "value": 1.0}, "evaluations: the task name 'average' is taken"),
        ("evaluations", {**ITEM, "tokens": -1, "value": 1.0}, "evaluations: rows refused: .*CHECK"),
    ],
)
def test_rows_that_do_not_fit_are_refused(path, table, given, said):
    with pytest.raises(InputError, match=said) as error:
        results.ingest(path, {table: rows(given)})
    one_line(error)


def test_a_run_whose_tokens_go_back_is_refused(path):
    steps = [{"run_id": "r", "step": n, "tokens": tokens} for n, tokens in ((1, 10), (2, 20), (3, 15))]
    results.ingest(path, {"steps": rows(*steps[:2])})
    with pytest.raises(InputError, match="run r goes back from 20 tokens to 15 at step 3"):
        results.ingest(path, {"steps": rows(*steps[2:])})
    assert count(path, "steps") == 2


def test_one_bad_table_keeps_all_out(path):
    with pytest.raises(InputError):
        results.ingest(path, {"items": items(3), "studies": rows({"study_id": "s", "unknown": 1})})
    assert count(path, "items") == 0


def test_files_that_cannot_be_read_are_named(path, tmp_path):
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"PAR1 cut short")
    for file, said in ((broken, "broken.parquet"), (tmp_path / "absent.parquet", "no such file: .*absent.parquet")):
        with pytest.raises(InputError, match=said) as error:
            results.ingest(path, {"items": [file]})
        one_line(error)


def test_a_full_disk_is_told_and_nothing_is_changed(path):
    results.ingest(path, {"items": items(3)})
    with no_space(), pytest.raises(InputError, match=r"results\.duckdb: rows could not be written") as error:
        results.ingest(path, {"items": items(4)})
    assert "make room" in one_line(error)
    assert count(path, "items") == 3
    assert results.ingest(path, {"items": items(4)}) == {"items": 4}


def test_computed_rows_stay_where_the_disk_is_full(path):
    place = {"study_id": "s", "variant": "DR", "baseline": "LA", "task": "t", "metric": "loss", "digest": ""}
    with results.connect(path) as connection:
        replace_computed(connection, "computed_factors", "s", pd.DataFrame([place]))
        with no_space(), pytest.raises(InputError, match=r"results\.duckdb: rows could not be written"):
            replace_computed(connection, "computed_factors", "s", pd.DataFrame([place]))
    assert count(path, "internal.computed_factors") == 1
