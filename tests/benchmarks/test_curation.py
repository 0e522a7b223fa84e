"""The benchmarks of curation run as their users start them, and what is measured beside seconds is right."""

import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from benchmarks.curation.whole import mirror_of, size_of

ROOT = Path(__file__).parents[2]


def printed(module: str, *arguments: object) -> str:
    return subprocess.check_output([sys.executable, "-m", module, *map(str, arguments)], cwd=ROOT, text=True)


@pytest.mark.slow
def test_deduplication_in_a_process_of_its_own_merges_what_was_planted(tmp_path: Path) -> None:
    found = printed("benchmarks.curation.deduplication", "--documents", 300, "--folder", tmp_path)
    exact = next(line.split() for line in found.splitlines() if line.split()[:1] == ["exact"])
    assert exact[-2:] == ["100.00", "%"]


@pytest.mark.slow
def test_the_whole_curation_is_measured_by_stage_and_in_all() -> None:
    lines = [line.split() for line in printed("benchmarks.curation.whole", "--documents", 1500).splitlines() if line]
    assert any(line[0] == "deduplicate" and float(line[1]) > 0 for line in lines)
    assert lines[-1][0] == "here"


@pytest.mark.slow
def test_the_tables_of_truth_find_what_was_planted() -> None:
    lines = [line.split() for line in printed("benchmarks.truth", "--documents", 1500).splitlines() if "%" in line]
    leaks = [line for line in lines if line[0] == "leak"]
    assert len(leaks) == 8
    assert all(line[-2] == "100.00" for line in leaks)


def test_a_file_of_two_names_takes_its_bytes_once(tmp_path: Path) -> None:
    (tmp_path / "shard").write_bytes(b"x" * 1000)
    os.link(tmp_path / "shard", tmp_path / "passed on")
    (tmp_path / "other").write_bytes(b"x" * 10)
    assert size_of(tmp_path) == 1010


def test_a_mirror_that_was_begun_and_killed_is_made_again(tmp_path: Path) -> None:
    begun = tmp_path / "mirror-of-corpus-20-of-150-words.partial" / "synthetic" / "documents"
    begun.mkdir(parents=True)
    mirror = mirror_of(tmp_path, 20)
    assert len(list(mirror.glob("synthetic/documents/default/train/*.parquet"))) == 1
    assert pq.read_metadata(mirror / "synthetic" / "items" / "default" / "test.parquet").num_rows == 20
    assert not list(tmp_path.glob("*.partial"))
