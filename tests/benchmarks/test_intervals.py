"""Intervals hold the truth as often as they say."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks.intervals.repetitions import repetition, summary
from dreamer_study.flows.study.loading import load_study

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_most_intervals_contain_the_truth_and_more_seeds_make_them_narrower():
    command = [
        sys.executable,
        "-m",
        "benchmarks.intervals.coverage",
        "--studies",
        "40",
        "--seeds",
        "3",
        "8",
    ]
    rows = subprocess.check_output(command, cwd=ROOT, text=True).splitlines()[2:]
    (few, *of_few), (many, *of_many) = (
        [float(number) for number in re.findall(r"[\d.]+", row)] for row in rows
    )
    assert (few, many) == (3, 8)
    assert min(of_few[::2] + of_many[::2]) > 85
    assert all(1 < narrow < wide for narrow, wide in zip(of_many[1::2], of_few[1::2], strict=True))


def test_repetitions_share_no_seed_and_no_world():
    content = load_study("demo").model_dump(mode="json", exclude_unset=True)
    studies = [load_study(repetition(content, number)) for number in range(4)]
    assert studies[0].study_id == load_study("demo").study_id
    seeds = [seed for study in studies for seed in study.training.seeds]
    assert len(set(seeds)) == len(seeds) == 4 * len(studies[0].training.seeds)
    own = [seed for study in studies for seed in study.seeds_of("LA-1")]
    assert len(set(own)) == len(own) == 4 * len(studies[0].seeds_of("LA-1"))
    assert len({study.data.world.seed for study in studies}) == 4
    assert len({study.training.tokens for study in studies}) == 1


def test_the_summary_counts_intervals_that_hold_the_mean_of_all():
    intervals = pd.DataFrame(
        {
            "metric": "loss",
            "task": "average",
            "depth": 4,
            "variant": "DR",
            "factor": [0.5, 1.0, 2.0, np.nan, 3.0],
            "low": [0.4, 0.9, 1.5, np.nan, np.nan],
            "high": [1.0, 1.1, 2.5, np.nan, np.nan],
        }
    )
    (row,) = summary(intervals).to_dict("records")
    assert row["mean"] == pytest.approx(1)
    # Student's t of three
    assert row["mean_high"] == pytest.approx(np.exp(4.303 * np.log(2) / np.sqrt(3)), rel=1e-3)
    assert row["covered"] == 2
    assert row["repetitions"] == 3
    assert row["deviation"] == pytest.approx(np.log(2))
    assert row["widest"] == pytest.approx(2.5)
