"""Tables of factors, and the queries of their numbers."""

from __future__ import annotations

from pathlib import Path

from reports.data import UNKNOWN_DEPTH, read_study
from reports.style.theme import styles
from reports.tables.efficiency import factors
from reports.text.numbers import interval
from sql.results import query
from tests.reports.small_results import POINTS, RIGHT, STUDY, entered, evaluations, model_row, run_row, study


def test_the_query_of_a_factor_gives_its_interval_where_the_depth_is_unknown(tmp_path: Path) -> None:
    tables = {"studies": [study()], "models": [], "runs": [], "evaluations": [], "items": []}
    for variant in ("LA", "DR"):
        tables["models"].append({**model_row(variant, variant, 4), "depth": None})
        tables["runs"].append(run_row(variant, variant))
        for name, rows in evaluations(variant, RIGHT[variant], ("gsm8k",), POINTS).items():
            tables[name] += rows
    database = entered(tmp_path / "results.duckdb", tables, replicates=20)
    data = read_study(database, STUDY)
    made = factors(data.efficiency, styles(data.variants), UNKNOWN_DEPTH)
    names = [head.text for head in made.head[0]]
    cell = made.rows[0].cells[names.index("DR")]
    assert cell.note not in ("", "no interval")
    (origin,) = cell.origins
    (answer,) = query(database, origin.query(origin.keys)).to_dict("records")
    assert (answer["factor"], interval(answer)) == (4, cell.note)
