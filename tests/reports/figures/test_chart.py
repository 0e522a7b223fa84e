"""The parts of all charts: axes, data, and the run that stands for a model."""

from __future__ import annotations

import csv
import io
import math

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reports.figures.chart import one_run_each, records, seed_lines, token_axis, y_axis
from tests.reports.figures.frames import DRAWN, MODEL_RUNS, SCORES


@pytest.mark.parametrize(
    ("values", "kind", "domain"),
    [
        ([1e6, 16e6], "log", [1e6, 16e6]),
        ([1e6, 4e6], None, [0, 4e6]),
        ([5e6], "log", [2.5e6, 1e7]),
        ([0, 1e6, 4e6], "symlog", [0, 4e6]),
        ([0], None, [0, 1]),
    ],
)
def test_the_token_axis(values: list[float], kind: str | None, domain: list[float]) -> None:
    scale = token_axis(pd.Series(values)).to_dict(validate=False)["scale"]
    assert scale.get("type") == kind
    assert scale["domain"] == domain


@given(st.floats(1, 1e12), st.floats(8, 1e9))
def test_logarithmic_ticks_are_few_and_round(low: float, ratio: float) -> None:
    high = low * ratio
    ticks = token_axis(pd.Series([low, high])).to_dict(validate=False)["axis"]["values"]
    assert 1 <= len(ticks) <= 7
    assert all(low <= tick <= high for tick in ticks)


def test_one_run_of_several_stands_for_its_model() -> None:
    every = pd.concat([SCORES.assign(run_id=run) for run in ("r", "s", "t")])
    for ended_early in ("screened", "failed"):
        runs = MODEL_RUNS.replace({"status": {"screened": ended_early}})
        ((title, rows, style, keys),) = one_run_each(every, runs, DRAWN)
        assert title == "DR, depth 2"
        assert set(rows["run_id"]) == {"s"}
    assert style.variant == keys["variant"] == "DR"
    assert one_run_each(every, MODEL_RUNS.assign(variant="unknown"), DRAWN) == []


@settings(max_examples=30)
@given(st.lists(st.tuples(st.text(st.characters(exclude_categories=["Cs"])), st.floats(allow_nan=True))))
def test_data_survive_on_their_way_into_a_chart(rows: list[tuple[str, float]]) -> None:
    frame = pd.DataFrame(rows, columns=["variant", "value"]).astype({"variant": object})
    given_data = records(frame, ["variant", "value"]).to_dict()
    read = list(csv.reader(io.StringIO(given_data["values"], newline="")))
    assert read[0] == ["variant", "value"]
    for (name, value), (text, number) in zip(rows, read[1:], strict=True):
        assert text == name
        assert (number == "") == (not math.isfinite(value))
        assert number == "" or math.isclose(float(number), value, rel_tol=1e-5)


def test_the_lines_of_many_seeds_are_fainter_than_those_of_few() -> None:
    def opacity(runs: int) -> float:
        names = [str(run) for run in range(runs)]
        rows = pd.DataFrame({"variant": "LA", "run_id": names, "tokens": 1e6, "accuracy": 0.5})
        drawn = seed_lines(rows, token_axis(rows["tokens"]), y_axis("accuracy"), DRAWN)
        return drawn.to_dict(validate=False)["mark"]["strokeOpacity"]

    assert opacity(30) < opacity(3)
