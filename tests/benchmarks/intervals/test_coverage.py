"""The coverage of the mean factor's intervals: most contain the truth, and more seeds make them narrower."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def table(*arguments):
    """The rows of the table: name, studies counted, share in percent, width."""
    command = [sys.executable, "-m", "benchmarks.intervals.coverage", *map(str, arguments)]
    printed = subprocess.check_output(command, cwd=ROOT, text=True)
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in printed.splitlines()[2:]]
    return [(name, int(counted), *map(float, found.strip(")").split(" ("))) for name, counted, found in rows]


@pytest.mark.slow
def test_most_intervals_contain_the_truth_and_more_seeds_make_them_narrower():
    found = table("--studies", 40, "--seeds", 3, 8)
    assert [row[0] for row in found] == ["population, 3 seeds", "population, 8 seeds"]
    assert all(row[2] > 85 for row in found)
    assert 1 < found[1][3] < found[0][3]


def test_single_designs_are_simulated_alike_every_time():
    found = [table("--set", "scenarios", "--studies", 2, "--seeds", 3) for _ in range(2)]
    assert found[0] == found[1]
    assert len(found[0]) > 5
