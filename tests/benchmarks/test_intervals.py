"""Intervals hold the truth as often as they say."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks.intervals.coverage import decay_bound, study, truth
from benchmarks.intervals.designs import DESIGNS
from benchmarks.intervals.repetitions import repetition, summary
from benchmarks.intervals.simulated_studies import Design
from dreamer_study.flows.study.loading import load_study
from dreamer_study.sql.statistics.curves import SeedCurves
from dreamer_study.sql.statistics.pairs import compare_models

ROOT = Path(__file__).parents[2]


def as_numbers(table: str) -> pd.DataFrame:
    """Read the table that `coverage` prints, a row for each design and number of seeds."""
    head, _, *rows = [line.strip("| ").split(" | ") for line in table.splitlines()]
    head[head.index("high / low", head.index("high / low") + 1)] = "high / low of the mean factor"
    return pd.DataFrame(rows, columns=head[: len(rows[0])]).set_index(["design", "seeds"])


@pytest.mark.slow
def test_most_intervals_contain_the_truth_and_more_seeds_make_them_narrower() -> None:
    command = [sys.executable, "-m", "benchmarks.intervals.coverage", "--studies", "40"]
    designs = ["population", "equal", "plateau"]
    command += ["--seeds", "3", "8", "--designs", *designs]
    found = as_numbers(subprocess.check_output(command, cwd=ROOT, text=True)).iloc[:, :6]
    found = found.astype(float)
    assert len(found) == 6
    assert (found[["ratio holds %", "mean factor holds %"]] > 85).all(axis=None)
    for design in designs:
        few = found.loc[(design, "3")]
        many = found.loc[(design, "8")]
        for width in ("high / low", "high / low of the mean factor"):
            assert 1 < many[width] < few[width]


def designs(name: str, number: int = 5) -> list[Design]:
    random = np.random.default_rng([1, list(DESIGNS).index(name)])
    return [DESIGNS[name](random, 4) for _ in range(number)]


def test_equal_models_have_the_ratio_one() -> None:
    for of in designs("equal"):
        assert truth(of).ratio == 0


def test_a_plateau_ends_below_the_baseline() -> None:
    for of in designs("plateau"):
        assert of.expected(1)[-1] < of.expected(0)[-1] - 0.05


def test_runs_that_end_at_one_quality_read_the_ratio_of_decayed_runs() -> None:
    for of in designs("decay-at-ends"):
        true = truth(of)
        assert np.exp(true.ratio_when_decayed) == pytest.approx(2 / 3, rel=1e-3)
        assert true.ratio == pytest.approx(true.ratio_when_decayed, abs=0.02)


def test_a_reading_along_runs_that_decay_is_nearer_one_and_called_a_bound() -> None:
    for of in designs("decay-along"):
        true = truth(of)
        assert np.exp(true.ratio_when_decayed) == pytest.approx(2 / 3, rel=1e-3)
        assert np.exp(true.ratio) == pytest.approx(0.91, abs=0.02)
        curves = (SeedCurves(np.log(of.tokens(k)), of.expected(k)[None], None) for k in range(2))
        assert decay_bound(of, compare_models(*curves)) == "at most"


def test_a_study_counts_what_its_statement_holds() -> None:
    random = np.random.default_rng(1)
    (of,) = designs("decay-along", 1)
    counted = study(of, random)
    assert counted["has_interval"] == counted["is_bound"] == 1
    assert (counted["inside_when_decayed"], counted["statement_holds"]) == (0, 1)


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
            "ratio": [0.5, 1.0, 2.0, np.nan, 3.0],
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
