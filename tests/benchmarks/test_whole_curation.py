"""What the benchmark of the whole curation measures beside seconds: open files, memory and disk."""

import os
from pathlib import Path

from benchmarks.curation.whole import size_of, usage


def test_a_file_of_two_names_takes_its_bytes_once(tmp_path: Path) -> None:
    (tmp_path / "shard").write_bytes(b"x" * 1000)
    os.link(tmp_path / "shard", tmp_path / "passed on")
    (tmp_path / "other").write_bytes(b"x" * 10)
    assert size_of(tmp_path) == 1010


def test_open_files_and_memory_are_those_of_this_process_at_least(tmp_path: Path) -> None:
    memory, files = usage()
    opened = [(tmp_path / str(number)).open("w") for number in range(50)]
    assert usage()[1] >= files + 45  # other threads may close some
    assert memory > 10_000_000
    for file in opened:
        file.close()
