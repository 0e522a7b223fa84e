"""Where numbers come from: the query of every number gives that number; runs, checkpoints and versions are told."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from model.config import la
from reports.data import UNKNOWN_DEPTH, StudyData, read_study
from reports.page.comparing import write_comparison
from reports.page.packing import unpacked
from reports.page.report import write_report
from reports.page.tracing import Tracer
from reports.style.theme import styles
from reports.tables.hyperparameters import hyperparameters
from reports.tables.origins import Origin
from sql.connection import connect
from sql.keeping import keep_views
from sql.statistics.comparison import holm, paired_p
from tests.reports.small_results import RIGHT, STUDY, entered, model_row, run_row, study, whole_study

# The text of a number that tells its origin, below the name of its table.
PART = re.compile(r'<figcaption id="(table-[^"]+)">|<t[dh][^>]* data-origin="(\d+)"[^>]*>([^<]*)')
BOX = re.compile(r'<p class="size" data-origin="(\d+)">([^<]*)')
SHOWN = re.compile(r"(?:≥|≤|at least |at most )?\s*([+−-]?[\d,]*\.?\d+(?:e[+-]?\d+)?)\s*([A-Za-z]*)")
# Tables about the data and the study file, whose numbers are of no run.
OF_NO_RUN = ("table-funnel", "table-funnel-sources", "table-3", "table-4")
EACH = 12  # numbers asked for in a table
UNITS = {"K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12, "min": 60, "h": 3600, "days": 86_400}


def origins(page: str) -> dict[str, Any]:
    return json.loads(unpacked(re.search(r'id="origins">([^<]*)<', page)[1]))


def numbers(page: str, each: int = EACH) -> Iterator[tuple[str, str, list[dict[str, Any]]]]:
    """Yield table, text and origins of so many numbers of every table of a page: of its first rows."""
    table, known, seen = "", origins(page)["numbers"], Counter[str]()
    for name, place, text in PART.findall(page):
        if name:
            table = name
        elif seen[table] < each:
            seen[table] += 1
            yield table, text.strip(), known[int(place)]


def boxes(page: str) -> list[tuple[str, dict[str, Any]]]:
    """The large numbers of a page, with their origins."""
    known = origins(page)["numbers"]
    return [(text.strip(), *known[int(place)]) for place, text in BOX.findall(page)]


@contextmanager
def asked(path: Path) -> Iterator[Callable[[str], pd.DataFrame]]:
    """Give a function that asks a results file; its views are computed once for all queries."""
    connection = connect(path, read_only=True)
    keep_views(connection, STUDY)
    yield lambda sql: connection.execute(sql).df()
    connection.close()


def is_shown_as(value: Any, text: str) -> bool:
    """Tell whether a text is a value, rounded as the text is."""
    written, unit = SHOWN.match(text).groups()
    digits = written.replace(",", "").replace("−", "-")
    step = 10.0 ** -len(digits.partition(".")[2].partition("e")[0]) * UNITS.get(unit, 1)
    return abs(float(value) - float(digits) * UNITS.get(unit, 1)) <= 0.51 * step


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return whole_study(tmp_path_factory.mktemp("tracing") / "results.duckdb", depths=(2, 4))


def test_the_query_of_every_number_gives_the_number(results: Path) -> None:
    page = write_report(results, STUDY, results.parent / "report", papers=False).read_text()
    seen: set[str] = set()
    with asked(results) as ask:
        for table, text, (one,) in numbers(page):
            rows = ask(one["query"])
            assert len(rows) == 1, one
            assert is_shown_as(rows.iloc[0, 0], text), (table, text, one, rows)
            assert bool(one["runs"]) == (table not in OF_NO_RUN), one
            seen.add(table)
        for text, one in boxes(page):
            (row,) = ask(one["query"]).to_dict("records")
            assert is_shown_as(row["factor"], text), (text, one)
            assert {"low", "high"} <= set(row)
            assert one["runs"]
    assert len(boxes(page)) == 2 * 3
    expected = {"table-mean-factors-4", "table-factors-4", "table-rules", "table-rules-all", "table-curve-4"}
    expected |= {"table-depths", "table-1", "table-2", "table-benchmarks", "table-runs", "table-experts"}
    assert expected | {"table-compute", *OF_NO_RUN} <= seen


@pytest.mark.slow
def test_the_queries_of_a_comparison_are_of_the_study_that_they_name(results: Path, tmp_path: Path) -> None:
    right = {**RIGHT, "DR": (4, 8, 14, 18, 22)}
    files = [results, whole_study(tmp_path / "other" / "results.duckdb", right, depths=(2, 4))]
    page = write_comparison([(file, None) for file in files], tmp_path / "page.html").read_text()
    assert [study["name"] for study in origins(page)["studies"]] == ["small (1)", "small (2)"]
    seen: dict[str, set[int]] = {}
    with asked(files[0]) as first, asked(files[1]) as second:
        for table, text, found in numbers(page):
            rows = [(first, second)[one["study"]](one["query"]) for one in found]
            if "item_id" in rows[0]:
                continue  # p, of which the next test is
            assert all(len(one) == 1 for one in rows), found
            if len(found) == 1:
                assert is_shown_as(rows[0].iloc[0, 0], text), (table, text, found, rows)
            elif text.startswith(("+", "−")):
                assert is_shown_as(rows[1].iloc[0, 0] - rows[0].iloc[0, 0], text), (table, text, found, rows)
            seen.setdefault(table, set()).update(one["study"] for one in found)
    for table in ("table-changed-1", "table-factors-1", "table-mean-factors-4", "table-curve-4", "table-1"):
        assert seen[table] == {0, 1}, table
    assert seen["table-funnel-of-2"] == {1}
    assert {one["study"] for _, one in boxes(page)} == {0, 1}


@pytest.mark.slow
def test_the_rows_of_p_give_p_by_the_function_that_their_note_names(results: Path, tmp_path: Path) -> None:
    right = {"LA": RIGHT["LA"], "DR": (2, 4, 6, 8, 10)}
    files = [results, whole_study(tmp_path / "other" / "results.duckdb", right, depths=(2, 4))]
    page = write_comparison([(file, None) for file in files], tmp_path / "page.html").read_text()
    shown, computed = [], []
    with asked(files[0]) as first, asked(files[1]) as second:
        for table, text, found in numbers(page, each=1000):
            if table == "table-changed-1" and "paired_p" in found[0].get("note", ""):
                rows = [(first, second)[one["study"]](one["query"]) for one in found]
                paired = rows[0].merge(rows[1], on=["item_id", "metric", "filter"])
                difference = (paired["value_y"] - paired["value_x"]).to_numpy()
                computed.append(paired_p(difference, np.random.default_rng(0)))
                shown.append(float(text))
    assert len(set(shown)) > 1
    assert shown == pytest.approx(holm(np.array(computed)), rel=0.05)


def traced_study(runs: pd.DataFrame, checkpoints: pd.DataFrame, counted: Sequence[str] = ("a", "b")) -> Tracer:
    """A tracer of the study "s", in whose curves the named runs count."""
    frames = {"runs": runs, "checkpoints": checkpoints, "counted": pd.DataFrame({"run_id": list(counted)})}
    return Tracer({"s": StudyData({"study_id": "s", "config": None, "code_version": "1"}, frames)})


def runs_of(tracer: Tracer, *asked: Origin) -> list[list[str]]:
    """The names of the runs of each origin."""
    tracer.number(asked)
    found = json.loads(unpacked(tracer.packed()))
    return [[found["studies"][0]["runs"][place]["run"] for place in one["runs"]] for one in found["numbers"][-1]]


def test_numbers_of_curves_are_not_of_runs_that_do_not_count() -> None:
    status = ["complete", "screened", "failed", "complete"]
    variants = ["DR", "DR", "DR", "LA"]
    runs = pd.DataFrame(
        {"run_id": list("abcd"), "model_id": variants, "variant": variants, "depth": 4, "seed": 0.0, "status": status}
    )
    tracer = traced_study(runs, pd.DataFrame({"run_id": ["a"], "tokens": [5]}), counted=("a", "d"))
    keys = {"study_id": "s", "variant": "DR", "depth": 4}
    curves = ("accuracy_curve", "table_2", "compared_scores({study})")
    assert runs_of(tracer, *(Origin("accuracy", view, keys) for view in curves)) == [["a"]] * 3
    factors = ("mean_factors", "data_efficiency LEFT JOIN factor_intervals")
    assert runs_of(tracer, *(Origin("factor", view, keys) for view in factors)) == [["a", "d"]] * 2
    speeds, named = Origin("mfu", "table_1", keys), Origin("mfu", "runs", {"study_id": "s", "run_id": "b"})
    assert runs_of(tracer, speeds, named) == [["a", "b", "c"], ["b"]]


def test_a_model_without_a_variant_goes_by_its_name(tmp_path: Path) -> None:
    unnamed = {**model_row("m", "LA", 4), "variant": None, "config": json.dumps(la(4).to_dict())}
    rows = {"studies": [study()], "models": [unnamed, model_row("n", "LA", 4)]}
    rows["runs"] = [run_row("a", "m"), run_row("b", "n")]
    data = read_study(entered(tmp_path / "results.duckdb", rows), STUDY)
    made = hyperparameters(data.models, {}, styles(data.variants))
    assert made.head[0][1].text == "m"
    tracer, layers = Tracer({STUDY: data}), made.rows[0].cells[1]
    assert runs_of(tracer, *layers.origins) == [["a"]]
    assert json.loads(unpacked(tracer.packed()))["numbers"][0][0]["query"].endswith("AND model_id = 'm'")
    assert runs_of(tracer, Origin("factor", "mean_factors", {"study_id": STUDY, "variant": None})) == [[]]


def test_an_unknown_depth_is_told_as_null() -> None:
    models = {"model_id": ["m", "n"], "variant": "DR", "depth": [UNKNOWN_DEPTH, 4]}
    runs = pd.DataFrame({"run_id": ["a", "b"], **models, "seed": 0.0, "status": "complete"})
    tracer = traced_study(runs, pd.DataFrame({"run_id": ["a"], "tokens": [5]}))
    keys = {"study_id": "s", "variant": "DR", "depth": UNKNOWN_DEPTH}
    assert runs_of(tracer, Origin("accuracy", "accuracy_curve", keys)) == [["a"]]
    found = json.loads(unpacked(tracer.packed()))
    assert [run["depth"] for run in found["studies"][0]["runs"]] == [None, 4]
    assert found["numbers"][0][0]["query"].endswith("depth IS NULL")


def test_runs_are_told_with_their_checkpoints() -> None:
    models = {"model_id": ["m", "n"], "variant": ["DR", "LA"], "depth": 4}
    runs = pd.DataFrame({"run_id": ["a", "b"], **models, "seed": [0.0, None], "status": "x"})
    checkpoints = pd.DataFrame({"run_id": ["a", "a"], "tokens": [9, 5]})
    tracer = traced_study(runs, checkpoints)
    keys = {"study_id": "s", "variant": "DR", "depth": 4}
    tracer.number((Origin("accuracy", "accuracy_curve", {**keys, "tokens": 5}),))
    tracer.number((Origin("factor", "mean_factors", keys),))
    found = json.loads(unpacked(tracer.packed()))
    (told,) = found["studies"]
    assert told["runs"][0] == {
        "run": "a", "model": "m", "variant": "DR", "depth": 4, "seed": 0, "status": "x", "checkpoints": [5, 9]
    }  # fmt: skip
    assert (told["runs"][1]["seed"], told["runs"][1]["checkpoints"]) == (None, [])
    (point,), (factor,) = found["numbers"]
    assert (point["tokens"], point["runs"]) == (5, [0])
    assert factor["runs"] == [0, 1]  # a factor is against the baseline


def test_names_with_quotes_and_unknown_depths_are_asked_for_as_they_are() -> None:
    asked = Origin("factor", "mean_factors", {}).query({"study_id": "it's", "depth": -1, "task": None})
    assert asked == "SELECT factor FROM mean_factors WHERE study_id = 'it''s' AND depth IS NULL AND task IS NULL"
