"""Training speed is printed for every model, beside its reference."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_training_speed_is_printed_beside_the_reference():
    command = [sys.executable, "-m", "benchmarks.training_cpu", "--depths", "2", "--seconds", "0.05"]
    printed = subprocess.check_output(command, cwd=ROOT, text=True)
    rows = [line.split("|")[1:-1] for line in printed.splitlines() if line.startswith("| 2 |")]
    assert [row[1].strip() for row in rows] == ["LA", "DR", "DR+DA"]
    for row in rows:
        assert float(row[2].replace(",", "")) > 0  # tokens per second
        assert float(row[5].split()[0]) > 0  # to its reference
