"""Tables for Prefect's UI are strict JSON, which knows neither infinity nor NaN: the UI would say "No results"."""

from __future__ import annotations

import json
import math
from typing import Any

import pandas as pd
import pytest

import flows.full_study
from flows.full_study import show_results, table_rows
from flows.study.loading import load_study
from reports.data import StudyData
from tests.flows.small_study import TINY

FRAMES = [
    {"factor": [1.2, math.inf, -math.inf, math.nan], "seeds": [1, 2, 3, 4]},
    {"factor": [None, "text", True, 3], "bound": ["exact", None, math.inf, math.nan]},
    {"factor": pd.array([1, None], "Int64")},
    {"factor": []},
]


@pytest.mark.parametrize("columns", FRAMES)
def test_every_table_of_a_study_is_strict_json(monkeypatch: pytest.MonkeyPatch, columns: dict[str, Any]) -> None:
    sent: list[Any] = []
    monkeypatch.setattr(flows.full_study, "attempt", lambda send, *given: sent.append(given[0]))
    monkeypatch.setattr(flows.full_study, "_show_summary", lambda *_: None)
    frame = pd.DataFrame(columns)
    show_results(load_study(TINY), StudyData({}, {"mean_factors": frame, "efficiency": frame}))
    assert [len(rows) for rows in sent] == [len(frame)] * 2
    for rows in sent:
        assert json.loads(json.dumps(rows, allow_nan=False)) == rows


def test_infinity_is_said_in_words_and_what_is_missing_is_null() -> None:
    frame = pd.DataFrame({"low": [0.5, -math.inf], "high": [math.inf, math.nan], "seeds": [2, 3]})
    assert table_rows(frame) == [
        {"low": 0.5, "high": "unbounded", "seeds": 2},
        {"low": "-unbounded", "high": None, "seeds": 3},
    ]
