"""The baseline and the order of variants come from the rows: other names give other names, and the same numbers."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from reports.data import read_study
from sql.results import connect
from sql.statistics.compute import compute_statistics
from tests.reports.small_results import STUDY, whole_study

NAMES = {"LA": "X", "DR": "Y", "DR+DA": "Z", "tiny": "another's"}


def frames(path: Path) -> dict[str, pd.DataFrame]:
    """All that a report reads, rows in one order, after the factors were computed."""
    with connect(path) as connection:
        compute_statistics(connection, STUDY, replicates=20)
    read = read_study(path, STUDY)
    assert read.baseline == read.variants[0]
    return read.frames


def test_variants_of_other_names_have_the_same_numbers(tmp_path: Path) -> None:
    path = whole_study(tmp_path / "results.duckdb")
    with connect(path) as connection:
        connection.execute("update studies set baseline = 'DR'")
    before = frames(path)
    with connect(path) as connection:
        for name, other in NAMES.items():
            connection.execute("update models set variant = ? where variant = ?", [other, name])
        connection.execute("update studies set baseline = 'Y'")
    after = frames(path)
    assert before["efficiency"]["factor"].nunique() == 2
    back = {other: name for name, other in NAMES.items()}
    for name, frame in after.items():
        for column in {"variant", "baseline"} & {*frame}:
            frame[column] = frame[column].replace(back)
        order = list(frame)
        expected = before[name].sort_values(order, ignore_index=True) if len(frame) else before[name]
        pd.testing.assert_frame_equal(frame.sort_values(order, ignore_index=True), expected, obj=name)


@pytest.mark.parametrize(
    ("baseline", "order"),
    [(None, ["LA", "DR", "DR+DA", "tiny"]), ("tiny", ["tiny", "LA", "DR", "DR+DA"])],
)
def test_the_baseline_comes_first_and_is_the_first_one_by_default(
    tmp_path: Path, baseline: str | None, order: list[str]
) -> None:
    path = whole_study(tmp_path / "results.duckdb")
    with connect(path) as connection:
        connection.execute("update studies set baseline = ?", [baseline])
    data = read_study(path, STUDY)
    assert data.variants == order
    assert set(data.mean_factors["baseline"]) == {order[0]}
