"""The coverage of the mean factor's intervals: a table with a row for each number of seeds, the same every time."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def table(*arguments):
    """The rows of the table: name, studies counted, share of studies and width by method."""
    command = [sys.executable, "-m", "benchmarks.intervals.seed_coverage", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    head, rule, *rows = ([cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines())
    assert {len(head), len(rule)} | set(map(len, rows)) == {len(head)}
    return rows


@pytest.mark.slow
def test_more_seeds_give_narrower_intervals():
    found = [table("--studies", 8, "--seeds", 3, 8) for _ in range(2)]
    assert found[0] == found[1]
    few, many = found[0]
    assert (few[0], many[0]) == ("population, 3 seeds", "population, 8 seeds")
    widths = [float(row[2].split("(")[1].rstrip(")")) for row in (few, many)]
    assert 1 < widths[1] < widths[0]


@pytest.mark.slow
def test_the_truth_is_mostly_found():
    (row,) = table("--studies", 100, "--seeds", 5)
    assert float(row[2].split()[0]) > 88
