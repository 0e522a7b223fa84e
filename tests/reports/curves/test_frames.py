"""Curves that are data frames in memory: as a file of the same rows, and where they are wrong."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from dreamer_study.pipeline.errors import InputError
from dreamer_study.reports.curves.asked import Asked
from dreamer_study.reports.curves.entering import EXAMPLE
from dreamer_study.reports.curves.reading import read, read_frame

CURVES = pd.DataFrame(
    {
        "variant": ["A", "A", "B", "B"],
        "tokens": [10, 20, 10, 20],
        "task": "sums",
        "score": [0.1, 0.2, 0.3, 0.4],
    }
)
ITEMS = pd.DataFrame(
    {
        "variant": ["A"] * 4 + ["B"] * 4,
        "tokens": [10, 10, 20, 20] * 2,
        "task": "sums",
        "item": ["1", "2"] * 4,
        "score": [0.0, 0.2, 0.1, 0.3, 0.2, 0.4, 0.3, 0.5],
    }
)


def test_a_frame_has_the_curves_of_the_file() -> None:
    of_frame = read_frame(pd.read_csv(EXAMPLE))
    of_file = read(EXAMPLE)
    pd.testing.assert_frame_equal(of_frame.points, of_file.points, check_dtype=False)
    assert of_frame.notes == of_file.notes


@pytest.mark.parametrize(
    "frame",
    [
        CURVES.set_index(["variant", "tokens"]),
        CURVES.set_index(pd.Index([7, 7, 7, 7])),
        CURVES.astype({"variant": "category", "task": "category"}),
        CURVES.astype({"score": "float32", "tokens": "Int64"}),
        CURVES.rename(columns={"variant": "model", "tokens": "tokens_seen"}),
    ],
    ids=["index of names", "index of numbers", "categories", "other types", "other names"],
)
def test_frames_of_any_index_and_type_have_the_same_points(frame: pd.DataFrame) -> None:
    columns = ["variant", "seed", "tokens", "task", "value"]
    found = read_frame(frame).points[columns].reset_index(drop=True)
    expected = read_frame(CURVES).points[columns].reset_index(drop=True)
    pd.testing.assert_frame_equal(found, expected, check_dtype=False, rtol=1e-6)


def test_a_frame_in_memory_is_not_changed() -> None:
    before = CURVES.copy()
    read_frame(CURVES, Asked(items=ITEMS))
    pd.testing.assert_frame_equal(CURVES, before)


def test_items_are_a_frame_or_a_file(tmp_path: Path) -> None:
    file = tmp_path / "items.csv"
    ITEMS.to_csv(file, index=False)
    of_frame = read_frame(CURVES, Asked(items=ITEMS)).items
    of_file = read_frame(CURVES, Asked(items=file)).items
    assert of_frame is not None
    assert of_file is not None
    pd.testing.assert_frame_equal(of_frame, of_file, check_dtype=False)


WRONG = {
    "a percentage": (CURVES.assign(score=[0.1, 0.2, 30, 0.4]), "curves.iloc[2]: score 30.0 is not"),
    "no column": (CURVES.drop(columns="tokens"), "curves: no column 'tokens'"),
    "no rows": (CURVES.iloc[:0], "curves: holds no rows"),
    "one variant": (CURVES.iloc[:2], "curves: one variant only, 'A'"),
    "one point": (CURVES.iloc[[0, 2, 3]], "curves.iloc[0]: the only point of A on sums"),
    "a point twice": (pd.concat([CURVES, CURVES.iloc[:1]]), "curves.iloc[4]: task 'sums' is there"),
    "a column twice": (pd.concat([CURVES, CURVES[["task"]]], axis=1), "curves: two columns have"),
    "not a number": (CURVES.assign(tokens=[10, None, 10, 20]), "curves.iloc[1]: tokens nan is"),
}


@pytest.mark.parametrize(("frame", "message"), WRONG.values(), ids=WRONG.keys())
def test_what_is_wrong_names_the_row_as_pandas_finds_it(frame: pd.DataFrame, message: str) -> None:
    with pytest.raises(InputError) as refused:
        read_frame(frame)
    assert str(refused.value).startswith(message)


def test_items_of_another_mean_are_refused_by_their_row() -> None:
    wrong = ITEMS.assign(score=[0.0, 0.2, 0.1, 0.3, 0.2, 0.9, 0.3, 0.5])
    with pytest.raises(InputError, match=r"^items\.iloc\[4\]: the items have the mean score 0.55"):
        read_frame(CURVES, Asked(items=wrong))
