"""The benchmark of curation runs as its users start it: it deduplicates in a new process."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.flows.small_study import PROJECT


@pytest.mark.slow
def test_the_benchmark_prints_what_it_measures(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.curation", "--documents", "300", "--searched", "200", "--items", "50"]
    printed = subprocess.check_output([*command, "--folder", str(tmp_path)], cwd=PROJECT, text=True)
    for title in ("Pairs that were planted", "Deduplication, read to written", "Signatures", "Decontamination, 200"):
        assert title in printed
