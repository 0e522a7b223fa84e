"""Tables, views and macros as SQL defines them; views that are kept; results files and who may not
read them."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pytest

from dreamer_study.pipeline.errors import InputError
from dreamer_study.sql import results
from dreamer_study.sql.connection import connect
from dreamer_study.sql.definitions import FOLDER, comments, definitions, digest, views
from dreamer_study.sql.materialised import KEPT, keep_views
from dreamer_study.sql.results import query
from tests.reports.small_results import STUDY, whole_study
from tests.sql.by_hand import one_line


def test_a_query_that_is_refused_says_why_on_one_line(path):
    for sql, said in (
        ("selct 1", "syntax error"),
        ("from data_eficiency", 'Did you mean "data_efficiency"'),
    ):
        with pytest.raises(InputError, match=said) as error:
            results.query(path, sql)
        one_line(error)


READ = (
    *KEPT,
    "mean_factors",
    "data_efficiency",
    "table_2",
    "expert_concentration",
    "expert_diversity",
    "factor_by_target",
)


@pytest.mark.slow
def test_kept_views_hold_what_the_views_of_the_file_hold(tmp_path: Path) -> None:
    path = whole_study(tmp_path / "results.duckdb")
    with connect(path, read_only=True) as file:
        before = {view: file.execute(f"from {view} order by all").df() for view in READ}
    connection = connect(path, read_only=True)
    keep_views(connection, STUDY)
    for view in READ:
        assert len(before[view]) or view == "decays", view  # this study's rates do not decay
        rows = connection.execute(f"from {view} order by all").df()
        # threads add the numbers of a mean in any order
        pd.testing.assert_frame_equal(rows, before[view], rtol=1e-12, obj=view)
    connection.close()


@pytest.mark.slow
def test_kept_views_know_of_one_study_and_the_file_of_all(tmp_path: Path) -> None:
    path = whole_study(tmp_path / "results.duckdb")
    connection = connect(path, read_only=True)
    keep_views(connection, "another")
    assert not connection.execute("from table_2").fetchall()
    connection.close()
    assert len(query(path, "from table_2"))


TEXTS = definitions()
BUILT = list(views())


def test_every_file_is_run_once_tables_first():
    files = [file.stem for file in FOLDER.rglob("*.sql") if file.parent.name != "queries"]
    assert sorted(TEXTS) == sorted({*files, "schema"})
    assert len(files) == len(set(files))
    assert set(list(TEXTS)[-len(BUILT) :]) == set(BUILT)


def test_no_view_or_macro_names_a_variant():
    named = [
        name for name in BUILT if re.search(r"'(LA|DR|DR\+DA)'", re.sub(r"--.*", "", TEXTS[name]))
    ]
    assert named == []


# Users' queries rely on these.
TABLES = "studies curation sources models runs steps checkpoints evaluations raw_evaluations depth_evaluations items"
VIEWS = "token_ratios token_accuracy token_loss best_accuracy data_efficiency data_efficiency_interpolated mean_factors study_noise"
TABLES += " answers depth_attention expert_usage ingested benchmarks"
VIEWS += " factor_by_target table_1 table_2 table_4 funnel funnel_by_source expert_lorenz expert_gini depth_accuracy"


def test_what_users_query_is_little_and_has_a_comment_on_every_column(sql):
    connection = sql.cursor()
    connection.execute("set search_path = 'main'")
    shown = {name for (name,) in connection.execute("show tables").fetchall()}
    assert shown > {*TABLES.split(), *VIEWS.split()}
    assert len(shown) <= 42
    without = (
        "select table_name, '' from duckdb_tables() where schema_name = 'main' and comment is null union all "
        "select view_name, '' from duckdb_views() where schema_name = 'main' and not internal and comment is null "
        "union all select table_name, column_name from duckdb_columns() "
        "where schema_name = 'main' and not internal and comment is null"
    )
    assert connection.execute(without).fetchall() == []


def test_a_name_that_means_several_things_is_said_in_each_table_and_view(sql):
    own = {(name, column) for _, name, column, _ in comments(TEXTS) if column}
    columns = "select table_name, column_name from duckdb_columns() where schema_name = 'main' and not internal"
    places = [
        place
        for place in sql.execute(columns).fetchall()
        if place[1] in ("bound", "chance", "metric")
    ]
    assert len(places) > 20
    assert [place for place in places if place not in own] == []


def test_a_comment_is_what_is_said_beside_the_definition():
    text = "-- One row: a b.\ncreate or replace view b as\nwith c as (\n    select x -- not of b\n)\n\nselect\n"
    text += "    y, z,\n    c.x, -- a number\n    sum(y) as s -- of y\nfrom c;\n"
    of_view = [
        ("view", "b", None, "a b."),
        ("view", "b", "x", "a number"),
        ("view", "b", "s", "of y"),
    ]
    table = "create table if not exists t ( -- One row: a t.\n    u bigint check (u > 0), -- one\n    v date\n);\n"
    of_table = [("table", "t", None, "a t."), ("table", "t", "u", "one")]
    assert list(comments({"b": text, "t": table})) == [*of_view, *of_table]


def test_another_text_gives_another_digest():
    assert digest(TEXTS) == digest(definitions.__wrapped__())  # read anew
    assert digest(TEXTS) != digest(TEXTS | {"funnel": TEXTS["funnel"] + "\n"})


@pytest.mark.parametrize("name", BUILT)
def test_a_file_says_what_it_creates(name):
    rows = "create or replace view" in TEXTS[name] or " as table" in TEXTS[name]
    assert TEXTS[name].startswith("-- One row: " if rows else "-- ")
