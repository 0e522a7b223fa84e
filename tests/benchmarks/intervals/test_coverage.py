"""The coverage of intervals is a table whose easy rows are known."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def table(*arguments):
    """The rows of the table: name, true factors, share of studies by rule, and the rest."""
    command = [sys.executable, "-m", "benchmarks.intervals.coverage", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    head, rule, *rows = ([cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines())
    assert {len(head), len(rule)} | set(map(len, rows)) == {len(head)}
    return rows


def share(cell):
    return float(cell.split()[0])


def test_a_limit_is_in_every_interval_that_is_open_there():
    (row,) = table("--studies", 3, "--scenario", "never reached")
    assert row[1] == "at most 1.00"
    assert [share(cell) for cell in row[2:8]] == [100] * 6


@pytest.mark.slow
def test_a_known_factor_is_known_and_mostly_found():
    rows = [table("--studies", 12, "--scenario", "factor 2, rising to the end") for _ in range(2)]
    assert rows[0] == rows[1]  # the same random numbers every time
    (row,) = rows[0]
    assert row[1] == "2.00"
    assert min(share(cell) for cell in row[2:4]) > 70
    assert 1.5 < float(row[8]) < 2.5  # as found


@pytest.mark.slow
def test_noise_of_training_is_not_in_intervals_of_items_only():
    (row,) = table("--studies", 40, "--scenario", "factor 2, training noise 0.06")
    first, interpolated, of_items = (share(cell) for cell in row[2:5])
    assert of_items < 80 < min(first, interpolated)


def test_the_population_is_divided_by_what_its_true_factor_is():
    everything, *kinds = table("--studies", 5)
    assert everything[0] == "all 5"
    counts = [int(kind[0].split(": ")[1].split()[0]) for kind in kinds]
    assert sum(counts) == 5
    inside = sum(count * share(kind[2]) for count, kind in zip(counts, kinds, strict=True) if count)
    assert inside / 5 == pytest.approx(share(everything[2]), abs=0.1)
