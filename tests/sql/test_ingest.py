"""Rows are entered once, whole or not at all, by any number of processes, and known to be there."""

from __future__ import annotations

import random
import shutil
import time
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dreamer_study.pipeline.errors import InputError
from dreamer_study.sql import results
from dreamer_study.sql.ingest import forget_differing, replace_computed
from dreamer_study.sql.ledger import TABLES, differing
from dreamer_study.sql.results import connect, ingest, query
from tests.full_disk import no_space
from tests.sql.by_hand import ITEM, count, items, one_line, rows
from tests.sql.empty import empty_file
from tests.sql.processes import shell, start, stopped_while_opening
from tests.waiting import PATIENCE_SECONDS


@pytest.mark.slow
def test_entering_twice_changes_nothing(path, tmp_path):
    pq.write_table(items(5), tmp_path / "items.parquet")
    tables = {
        "studies": rows({"study_id": "s", "name": "first", "created_at": "2026-01-01 12:00:00"}),
        "evaluations": rows({**ITEM, "value": 0.5}),
        "items": [tmp_path / "items.parquet"],
        "curation": rows(
            {"study_id": "s", "source": "a", "stage": "clean", "reason": "kept", "tokens": None}
        ),
    }
    for _ in range(2):
        assert results.ingest(path, tables) == {
            "studies": 1,
            "evaluations": 1,
            "items": 5,
            "curation": 1,
        }
        assert [count(path, table) for table in tables] == [1, 1, 5, 1]


@pytest.mark.slow
def test_a_row_entered_again_replaces_only_the_columns_given(path):
    results.ingest(
        path, {"runs": rows({"study_id": "s", "run_id": "r", "seed": 3, "status": "running"})}
    )
    results.ingest(path, {"runs": rows({"run_id": "r", "study_id": "s", "status": "complete"})})
    assert results.query(path, "select seed, status from runs").values.tolist() == [[3, "complete"]]


def test_of_several_rows_with_one_key_the_last_counts(path, tmp_path):
    for name, loss in (("b", 2.0), ("a", 1.0)):
        pq.write_table(
            rows({"run_id": "r", "step": 1, "tokens": 5, "loss": loss}),
            tmp_path / f"{name}.parquet",
        )
    results.ingest(path, {"steps": [tmp_path / "b.parquet", tmp_path / "a.parquet"]})
    assert results.query(path, "select loss from steps")["loss"].tolist() == [1.0]


@pytest.mark.slow
def test_items_replace_those_of_their_evaluation_and_no_others(path):
    results.ingest(
        path,
        {"items": pa.concat_tables([items(5), items(4, tokens=20), items(3, metric="acc_norm")])},
    )
    results.ingest(path, {"items": items(2, 0.0)})
    left = results.query(
        path, "select tokens, metric, count(*) as n from items group by all order by all"
    )
    assert left.values.tolist() == [[10, "acc", 2], [10, "acc_norm", 3], [20, "acc", 4]]


def test_nothing_to_enter_is_fine(path):
    assert results.ingest(path, {"items": [], "studies": pa.Table.from_pylist([])}) == {
        "items": 0,
        "studies": 0,
    }


@pytest.mark.parametrize(
    ("table", "given", "said"),
    [
        ("evaluation", {"run_id": "r"}, 'evaluation: rows refused: .*Did you mean "evaluations"'),
        (
            "studies",
            {"study_id": "s", "nam": "x"},
            'studies: rows refused: .*"nam" not found.*"name"',
        ),
        ("steps", {"run_id": "r", "loss": 1.0}, "steps: rows refused: .*column step not found"),
        ("studies", {"study_id": None, "name": "x"}, "studies: rows refused: .*NULL"),
        ("items", {**ITEM, "item_id": None, "value": 1.0}, "items: rows refused: .*NULL"),
        ("evaluations", {**ITEM, "value": "much"}, "evaluations: rows refused: .*much"),
        ("evaluations", {**ITEM, "tokens": -1, "value": 1.0}, "evaluations: rows refused: .*CHECK"),
    ],
)
def test_rows_that_do_not_fit_are_refused(path, table, given, said):
    with pytest.raises(InputError, match=said) as error:
        results.ingest(path, {table: rows(given)})
    one_line(error)


@pytest.mark.slow
def test_a_run_whose_tokens_go_back_is_refused(path):
    steps = [
        {"run_id": "r", "step": n, "tokens": tokens} for n, tokens in ((1, 10), (2, 20), (3, 15))
    ]
    results.ingest(path, {"steps": rows(*steps[:2])})
    with pytest.raises(InputError, match="the tokens of run r decrease from 20 to 15 at step 3"):
        results.ingest(path, {"steps": rows(*steps[2:])})
    assert count(path, "steps") == 2


def test_one_bad_table_keeps_all_out(path):
    with pytest.raises(InputError):
        results.ingest(path, {"items": items(3), "studies": rows({"study_id": "s", "unknown": 1})})
    assert count(path, "items") == 0


def test_files_that_cannot_be_read_are_named(path, tmp_path):
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"PAR1 cut short")
    for file, said in ((broken, "broken.parquet"), (tmp_path / "absent.parquet", "absent.parquet")):
        with pytest.raises(InputError, match=said) as error:
            results.ingest(path, {"items": [file]})
        one_line(error)


@pytest.mark.slow
def test_a_full_disk_is_told_and_nothing_is_changed(path):
    results.ingest(path, {"items": items(3)})
    with (
        no_space(),
        pytest.raises(InputError, match=r"results\.duckdb: rows could not be written") as error,
    ):
        results.ingest(path, {"items": items(4)})
    assert "make room" in one_line(error)
    assert count(path, "items") == 3
    assert results.ingest(path, {"items": items(4)}) == {"items": 4}


@pytest.mark.slow
def test_computed_rows_stay_where_the_disk_is_full(path):
    place = {
        "study_id": "s",
        "variant": "DR",
        "baseline": "LA",
        "task": "t",
        "metric": "loss",
        "digest": "",
    }
    with results.connect(path) as connection:
        replace_computed(connection, "computed_ratios", "s", pd.DataFrame([place]))
        with (
            no_space(),
            pytest.raises(InputError, match=r"results\.duckdb: rows could not be written"),
        ):
            replace_computed(connection, "computed_ratios", "s", pd.DataFrame([place]))
    assert count(path, "internal.computed_ratios") == 1


ITEMS = 2000

# Enters one checkpoint after another, as evaluation does, and says so when each is in: arguments
# are the file, the run, how many checkpoints, and how long to wait for the file.
ENTER = """
    import sys
    import pyarrow as pa
    from dreamer_study.pipeline.errors import InputError
    from dreamer_study.sql import results

    file, run, checkpoints, wait = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
    for tokens in range(1, checkpoints + 1):
        place = {"run_id": run, "tokens": tokens, "task": "t", "metric": "acc", "filter": "none"}
        items = pa.table({
            **{name: [value] * ITEMS for name, value in place.items()},
            "item_id": [f"t/{n}" for n in range(ITEMS)],
            "value": [1.0] * ITEMS,
        })
        evaluation = pa.Table.from_pylist([{**place, "value": 1.0, "items": ITEMS}])
        try:
            results.ingest(file, {"items": items, "evaluations": evaluation}, wait=wait)
        except InputError as error:
            sys.exit(str(error))
        print(tokens, flush=True)
""".replace("ITEMS", str(ITEMS))


def entered(path: Path) -> dict[str, list[int]]:
    """By run the checkpoints that are there, each with its evaluation and all its items once."""
    asked = """
        select run_id, tokens, evaluations.items, count(*), count(distinct item_id)
        from items full join evaluations using (run_id, tokens, task, metric, filter)
        group by all order by all
    """
    found: dict[str, list[int]] = {}
    for run_id, tokens, *counts in results.query(path, asked).itertuples(index=False):
        assert counts == [ITEMS, ITEMS, ITEMS], (run_id, tokens, counts)
        found.setdefault(run_id, []).append(tokens)
    return found


@pytest.mark.slow
def test_what_is_entered_while_another_process_opens_the_file_is_kept(path):
    with stopped_while_opening(path, ENTER, path, "a", 1, PATIENCE_SECONDS) as other:
        results.ingest(path, {"items": items(3)})
    _, said = other.communicate()
    assert (other.returncode, said) == (0, "")
    assert count(path, "items") == ITEMS + 3


@pytest.mark.slow
def test_four_processes_enter_everything_while_users_open_the_file(path):
    writers = [start(ENTER, path, run, 8, PATIENCE_SECONDS) for run in "abcd"]
    for mode in ("read-only", "read-write"):
        with shell(path, mode):
            time.sleep(1)
    for process in writers:
        _, said = process.communicate()
        assert (process.returncode, said) == (0, "")
    assert entered(path) == {run: list(range(1, 9)) for run in "abcd"}
    assert results.query(path, "select study_id from studies")["study_id"].tolist() == ["by hand"]


@pytest.mark.slow
def test_kills_at_any_moment_lose_and_duplicate_nothing(path):
    random.seed(0)
    for _ in range(4):
        process = start(ENTER, path, "r", 1000, PATIENCE_SECONDS)
        acknowledged = int(process.stdout.readline())
        time.sleep(random.uniform(0, 0.5))
        process.kill()
        output, _ = process.communicate()
        acknowledged = max([acknowledged, *map(int, output.split())])
        with duckdb.connect(str(path)) as connection:  # a user's own shell opens it, too
            assert (
                connection.execute("select count(*) from items").fetchall()[0][0]
                >= acknowledged * ITEMS
            )
        checkpoints = entered(path)["r"]
        assert checkpoints == list(range(1, len(checkpoints) + 1))
        assert len(checkpoints) >= acknowledged


RUN = {"study_id": "s", "output": "runs/r", "run_id": "r"}
STUDY = {"study_id": "s", "output": "study", "task": "study"}
EVALUATION = {
    "study_id": "s",
    "output": "evaluations/a",
    "run_id": "r",
    "tokens": 5,
    "task": "t",
    "digest": "stored",
}
SEEN = {**EVALUATION, "output": "evaluations/b", "task": "introspection"}
OUTPUTS = [STUDY, RUN, EVALUATION, SEEN]
# the output and the place of a row of each table
ROWS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    **{
        table: (STUDY, {"study_id": "s"})
        for table in (
            "studies",
            "curation",
            "sources",
            "models",
            "benchmark_levels",
            "item_facts",
            "benchmark_cards",
            "study_inputs",
            "origins",
            "found_items",
        )
    },
    "runs": (RUN, {"study_id": "s", "run_id": "r"}),
    **{table: (RUN, {"run_id": "r"}) for table in ("run_details", "steps", "checkpoints")},
    **{
        table: (EVALUATION, {"run_id": "r", "tokens": 5, "task": "t"})
        for table in (
            "evaluations",
            "evaluation_versions",
            "raw_evaluations",
            "depth_evaluations",
            "items",
            "answers",
        )
    },
    **{
        table: (SEEN, {"run_id": "r", "tokens": 5}) for table in ("depth_attention", "expert_usage")
    },
}
CHANGED = (
    "value",
    "ceiling",
    "floor",
    "trained",
    "score",
    "selections",
    "loss",
    "code_version",
    "failure",
    "config",
    "documents",
    "licence",
    "seed",
    "text",
)


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A results file with a row in every table, of which every column has a value; not to be
    changed."""
    path, tables = empty_file(tmp_path_factory.mktemp("full") / "results.duckdb"), {}
    with connect(path) as connection:
        for table, (_, place) in ROWS.items():
            described = connection.execute(f"describe {table}").fetchall()
            row = {
                column: "x" if kind == "VARCHAR" else 1
                for column, kind, *_ in described
                if kind != "TIMESTAMP"
            }
            tables[table] = pa.Table.from_pylist([{**row, **place}])
    ingest(path, tables, outputs=OUTPUTS)
    return path


@pytest.fixture
def output(full: Path, tmp_path: Path) -> Path:
    """A copy of that file."""
    return Path(shutil.copy(full, tmp_path))


@pytest.mark.slow
def test_every_table_with_rows_of_studies_and_runs_is_covered(output: Path) -> None:
    of_outputs = "select distinct table_name from duckdb_columns() where column_name in ('study_id', 'run_id')"
    asked = f"{of_outputs} and table_name in (select table_name from duckdb_tables()) and table_name <> 'ingested'"
    tables = set(query(output, asked)["table_name"])
    computed = {"computed_ratios", "learning_times", "ratios_by_difficulty"}
    assert tables == {*ROWS, *computed, "claims", "tuning", "tuning_settings"}
    assert sorted(tables) == sorted(table for listed in TABLES.values() for table in listed.split())


@pytest.mark.slow
@pytest.mark.parametrize("table", ROWS)
def test_a_row_that_is_changed_or_missing_is_found_and_its_output_forgotten(
    output: Path, table: str
) -> None:
    assert differing(output, OUTPUTS) == []
    with connect(output) as connection:
        column = next(name for name in CHANGED if name in connection.table(table).columns)
    entered = ROWS[table][0]
    for statement in (f"update {table} set {column} = null", f"delete from {table}"):
        with connect(output) as connection:
            connection.execute(statement)
        assert differing(output, OUTPUTS) == [entered["output"]]
    assert forget_differing(output, OUTPUTS) == [entered["output"]]
    with connect(output) as connection:
        left = {other: len(connection.table(other).df()) for other in ROWS}
    assert left == {other: int(of != entered) for other, (of, _) in ROWS.items()}
    assert differing(output, OUTPUTS) == [entered["output"]]


@pytest.mark.slow
def test_outputs_that_were_made_anew_or_are_of_another_study_are_not_entered(output: Path) -> None:
    assert differing(output, [STUDY, {**EVALUATION, "digest": "another"}]) == ["evaluations/a"]
    assert differing(output, [{**EVALUATION, "study_id": "other"}]) == ["evaluations/a"]
