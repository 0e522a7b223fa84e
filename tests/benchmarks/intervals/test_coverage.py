"""The coverage of the mean factor's intervals: most contain the truth, and more seeds make them narrower."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.slow
def test_most_intervals_contain_the_truth_and_more_seeds_make_them_narrower():
    command = [sys.executable, "-m", "benchmarks.intervals.coverage", "--studies", "40", "--seeds", "3", "8"]
    rows = subprocess.check_output(command, cwd=ROOT, text=True).splitlines()[2:]
    few, many = ([float(number) for number in re.findall(r"[\d.]+", row)] for row in rows)
    assert (few[0], many[0]) == (3, 8)
    assert min(few[2], many[2]) > 85
    assert 1 < many[3] < few[3]
