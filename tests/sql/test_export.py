"""Tables are taken elsewhere, and questions answered."""

from __future__ import annotations

import csv
import re
import runpy
from itertools import product
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dreamer_study.pipeline.errors import InputError
from dreamer_study.sql import results
from dreamer_study.sql.export import copy_afresh, export
from tests.reports.small_results import ITEMS, POINTS, TASKS, curation, entered, trained
from tests.sql.empty import empty_file


@pytest.fixture
def path(tmp_path):
    file = empty_file(tmp_path / "results.duckdb")
    run = {"study_id": "s", "run_id": "r", "model_id": "LA"}
    evaluation = {
        "run_id": "r",
        "tokens": 10,
        "task": "t",
        "metric": "acc",
        "filter": "none",
        "value": 0.5,
    }
    results.ingest(
        file,
        {"runs": pa.Table.from_pylist([run]), "evaluations": pa.Table.from_pylist([evaluation])},
    )
    return file


@pytest.mark.slow
@pytest.mark.parametrize("format", ["parquet", "csv"])
def test_every_table_and_view_is_written_and_reads_back(path, tmp_path, format):
    folder = tmp_path / "it's here" / "export"
    files = export(path, folder, format=format)
    assert sorted(folder.iterdir()) == sorted([*files, folder / "export.json"])
    shown = "select distinct table_name from information_schema.tables where table_schema = 'main'"
    assert {file.stem for file in files} == set(results.query(path, shown)["table_name"])
    read = f"from read_{format}(?)"
    row = duckdb.execute(read, [str(folder / f"data_efficiency.{format}")]).df().iloc[0]
    assert (row["variant"], row["task"], row["factor"], row["bound"]) == (
        "LA",
        "t",
        1.0,
        "at least",
    )
    assert len(duckdb.execute(read, [str(folder / f"items.{format}")]).df()) == 0


@pytest.mark.slow
def test_no_cell_of_csv_is_run_by_a_spreadsheet(path, tmp_path):
    run, kept = ["=1+1", "+x", "-x", "@x", "\tx", "\r=x", "-1\n"], ["+1", "-.5", "-1e-3", "a=1", ""]
    with duckdb.connect(str(path)) as connection:
        connection.from_arrow(pa.table({"a text": [*run, *kept], "number": [-1.5] * 12})).create(
            "cells"
        )
    export(path, tmp_path / "export", format="csv")
    with (tmp_path / "export" / "cells.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    assert rows == [
        ["a text", "number"],
        *([text, "-1.5"] for text in [*(f"'{text}" for text in run), *kept]),
    ]


@pytest.mark.slow
def test_no_head_of_csv_is_run_by_a_spreadsheet(path, tmp_path):
    heads = ["=cmd|' /C calc'!A0", "@x", "-1.5", 'a "quoted" head', "\t=x"]
    with duckdb.connect(str(path)) as connection:
        connection.from_arrow(pa.table({head: ["=1"] for head in heads})).create("=heads")
    export(path, tmp_path / "export", format="csv")
    with (tmp_path / "export" / "=heads.csv").open(newline="") as file:
        head, cells = csv.reader(file)
    assert head == ["'=cmd|' /C calc'!A0", "'@x", "-1.5", 'a "quoted" head', "'\t=x"]
    assert cells == ["'=1"] * len(heads)


@pytest.mark.slow
def test_the_folder_itself_stays_where_it_is(path, tmp_path, monkeypatch):
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to("there")
    export(path, tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "there" / "items.parquet").exists()
    monkeypatch.chdir(tmp_path / "there")
    export(path, Path("."), format="csv")
    assert not Path("items.parquet").exists()
    assert Path("items.csv").exists()


@pytest.mark.slow
def test_what_cannot_be_written_is_named_and_leaves_nothing(path, tmp_path):
    (tmp_path / "mine.csv").write_text("a\n1\n")
    with duckdb.connect(str(path)) as connection:
        connection.execute('create view "my view" as select 1 as a')
    assert (tmp_path / "export" / "my view.parquet") in export(path, tmp_path / "export")
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            f"create or replace view \"my view\" as from read_csv('{tmp_path / 'mine.csv'}')"
        )
    (tmp_path / "mine.csv").unlink()
    for folder in ("export", "new"):
        with pytest.raises(InputError, match="my view cannot be exported"):
            export(path, tmp_path / folder)
    assert {file.name for file in tmp_path.iterdir()} == {"results.duckdb", "export"}
    assert (tmp_path / "export" / "my view.parquet").exists()


@pytest.mark.slow
def test_a_copy_afresh_holds_nothing_that_was_deleted(path, tmp_path):
    with results.connect(path) as connection:
        for study, config in (("old", "unpublished"), ("new", None)):
            connection.execute("delete from studies")
            connection.execute(
                "insert into studies (study_id, config) values (?, ?)", [study, config]
            )
            connection.execute("checkpoint")
    assert b"unpublished" in path.read_bytes()
    copy_afresh(path, copy := tmp_path / "it's here.duckdb")
    assert b"unpublished" not in copy.read_bytes()
    told = "select schema_name, table_name, column_name, comment from duckdb_columns() where not internal order by all"
    kept = "select version, digest from internal.schema_version"
    for asks in ("from runs", "from token_accuracy", "from mean_factors", told, kept):
        assert results.query(copy, asks).equals(results.query(path, asks))
    with results.connect(copy) as connection:
        version = connection.execute(
            "select tags from duckdb_databases() where path is not null"
        ).fetchall()[0][0]
    assert version["storage_version"].startswith("v1.2")


@pytest.mark.slow
def test_folders_with_other_files_are_left_alone(path, tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "thesis.txt").write_text("years of work")
    with pytest.raises(InputError, match=r"mine holds other files \(thesis.txt\)"):
        export(path, folder)
    with pytest.raises(InputError, match="is a file"):
        export(path, folder / "thesis.txt")
    assert (folder / "thesis.txt").read_text() == "years of work"
    # a name that an export has too, but nobody's export
    (folder / "thesis.txt").rename(folder / "items.csv")
    with pytest.raises(InputError, match=r"mine holds other files \(items.csv\)"):
        export(path, folder)
    (folder / "items.csv").unlink()
    (folder / "export.json").write_text('{"files": ["../results.duckdb"]}')
    with pytest.raises(InputError, match=r"mine holds other files \(export.json\)"):
        export(path, folder)
    assert path.exists()


def test_unknown_formats_and_missing_files_are_said(path, tmp_path):
    with pytest.raises(InputError, match="unknown format 'xlsx'; the formats are parquet and csv"):
        export(path, tmp_path / "export", format="xlsx")
    with pytest.raises(InputError, match="no such results file"):
        export(tmp_path / "nothing.duckdb", tmp_path / "export")
    assert not (tmp_path / "export").exists()


PAGE = Path(__file__).resolve().parents[2] / "docs" / "sql.md"
COOKBOOK = runpy.run_path(str(PAGE.with_name("cookbook.py")))
QUERY, answered = COOKBOOK["QUERY"], COOKBOOK["answered"]


SEEDS = (0, 1, 2)
RIGHT = {"LA": (4, 8, 12, 16, 20), "DR": (6, 10, 14, 18, 21)}


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    """Three seeds of two models that select experts, with an answer of one."""
    tables, last = trained(RIGHT, seeds=len(SEEDS)), {"tokens": POINTS[-1]}
    tables["expert_usage"] = [
        {**last, "run_id": f"{variant}-s{seed}", "depth": depth, "expert": expert}
        | {"selections": 1 + expert * 10 * (1 + seed) * (variant == "LA")}
        for variant, seed, depth, expert in product(RIGHT, SEEDS, (1, 2), range(8))
    ]
    tables["answers"] = [{**last, "run_id": "LA-s0", "task": "gsm8k", "item_id": "0", "text": "4"}]
    path = tmp_path_factory.mktemp("cookbook") / "results.duckdb"
    return entered(path, tables | {"curation": curation()}, replicates=50)


@pytest.mark.slow
def test_every_question_has_an_answer(database):
    page = answered(PAGE.read_text(), database)
    assert len(QUERY.findall(page)) == 13
    answers = re.findall(r"```text\n(.*?)```", page, re.DOTALL)
    assert len(answers) == 13
    # One asks for facts about items, of which there are none here; one looks for what is wrong.
    assert [number for number, answer in enumerate(answers) if answer == "(no rows)\n"] == [9, 11]
    # And the answers of the page itself, of another results file, have made way for these.
    assert page.count("```") == PAGE.read_text().count("```") == 56


def printed(number):
    """The output that the page has below a query, split into words."""
    outputs = re.findall(r"```text\n(.*?)```", PAGE.read_text(), re.DOTALL)
    return [line.split() for line in outputs[number].splitlines()]


def test_the_page_lists_the_tables_of_this_version(tmp_path):
    path = tmp_path / "results.duckdb"
    results.connect(path).close()
    listed = results.query(path, QUERY.findall(PAGE.read_text())[0])
    assert printed(0) == [line.split() for line in COOKBOOK["as_text"](listed).splitlines()]


def test_the_page_has_the_ratios_of_the_published_demo():
    published = pd.read_csv(PAGE.parent / "results" / "demo" / "ratios.csv")
    is_shown = (published["metric"] == "accuracy") & (published["task"] == "average")
    published = published[is_shown].set_index("variant")
    head, *rows = printed(1)
    shown = {row[1]: dict(zip(head, row, strict=True)) for row in rows if row[2] == "average"}
    assert shown.keys() == set(published.index)
    for variant, cells in shown.items():
        for name in ("ratio", "low", "high"):
            assert float(cells[name]) == pytest.approx(published[name][variant], rel=1e-3)


def answer(database, number):
    # the first lists what there is
    return results.query(database, QUERY.findall(PAGE.read_text())[number])


@pytest.mark.slow
def test_items_that_one_model_solves_are_counted_over_all_pairs_of_seeds(database):
    solved = results.query(
        database, f"from items join runs using (run_id) where items.tokens = {POINTS[-1]}"
    )
    found = answer(database, 7)
    assert list(zip(found["variant"], found["task"], found["items"], strict=True)) == [
        ("DR", task, ITEMS) for task in TASKS
    ]
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


@pytest.mark.slow
def test_the_use_of_experts_has_a_row_for_each_model_and_depth(database):
    found = answer(database, 12)
    assert list(zip(found["variant"], found["depth"], strict=True)) == [
        ("DR", 1),
        ("DR", 2),
        ("LA", 1),
        ("LA", 2),
    ]
    layered = "select avg(gini) as mean from expert_gini where depth is null and variant = 'LA'"
    assert found["gini_of_the_model"].iloc[-1] == pytest.approx(
        results.query(database, layered)["mean"][0]
    )
    assert found["gini_of_the_model"].iloc[0] == 0


@pytest.mark.slow
def test_a_query_without_an_answer_gets_one_and_an_old_one_goes(database):
    asked = "# A question\n\n```sql\nselect 1 as one, 'a' as name;\n```\n"
    page = f"{asked}\n```text\none  name\n  1  a\n```\n\nAnd more.\n"
    assert answered(f"{asked}\nAnd more.\n", database) == page
    assert answered(page, database) == page
    with pytest.raises(InputError, match="query refused"):
        answered("```sql\nselect nothing;\n```\n", database)
