"""The benchmark of the report draws rows that the report takes."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_a_page_of_many_figures_is_measured():
    printed = subprocess.check_output([sys.executable, "-m", "benchmarks.report", "--tiny"], cwd=ROOT, text=True)
    seconds, *_, figures = printed.splitlines()[-1].split()
    assert float(seconds) > 0
    assert int(figures) > 10
