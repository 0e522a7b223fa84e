"""The measurements at toy sizes."""

import os
import subprocess
import sys
from pathlib import Path
from random import Random
from signal import SIGKILL

import numpy as np
import pyarrow.parquet as pq
import pytest

from benchmarks.curation.whole import mirror_of, size_of
from benchmarks.soak import VICTIMS, Killer, run_study
from dreamer_study.flows.jobs.local import started
from dreamer_study.model.training.random_stream import write_random_stream
from dreamer_study.model.training.stream import TokenStream
from tests.waiting import until

ROOT = Path(__file__).parents[2]


def printed(module: str, *arguments: object) -> str:
    return subprocess.check_output(
        [sys.executable, "-m", module, *map(str, arguments)], cwd=ROOT, text=True
    )


@pytest.mark.slow
def test_deduplication_in_a_process_of_its_own_merges_what_was_planted(tmp_path: Path) -> None:
    found = printed("benchmarks.curation.deduplication", "--documents", 300, "--folder", tmp_path)
    exact = next(line.split() for line in found.splitlines() if line.split()[:1] == ["exact"])
    assert exact[-2:] == ["100.00", "%"]


@pytest.mark.slow
def test_the_whole_curation_is_measured_by_stage_and_in_all() -> None:
    lines = [
        line.split()
        for line in printed("benchmarks.curation.whole", "--documents", 1500).splitlines()
        if line
    ]
    assert any(line[0] == "deduplicate" and float(line[1]) > 0 for line in lines)
    assert lines[-1][0] == "here"


@pytest.mark.slow
def test_the_tables_of_truth_find_what_was_planted() -> None:
    lines = [
        line.split()
        for line in printed("benchmarks.truth", "--documents", 1500).splitlines()
        if "%" in line
    ]
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
    assert (
        pq.read_metadata(mirror / "synthetic" / "items" / "default" / "test.parquet").num_rows == 20
    )
    assert not list(tmp_path.glob("*.partial"))


@pytest.mark.parametrize("vocabulary_size", [100, 100_000])
def test_the_training_stream_reads_random_data(tmp_path, vocabulary_size):
    folder = write_random_stream(
        tmp_path / "data",
        sequence_length=64,
        vocabulary_size=vocabulary_size,
        rows=8,
        document_lengths=(10, 90),
    )
    stream = TokenStream(folder, seed=0, batch_rows=8, loss_on="responses")
    batch = stream.batch(0)
    assert stream.vocabulary_size == vocabulary_size
    assert batch.tokens.min() >= 0
    assert batch.tokens.max() < vocabulary_size
    assert (
        batch.real_tokens
        == stream.metadata["tokens"]
        == int((batch.documents >= 0).sum())
        == 8 * 64
    )
    assert 0 < batch.target_tokens < batch.real_tokens / 2
    assert batch.positions.max() < 64


def test_random_tokens_are_as_uneven_as_words(tmp_path):
    folder = write_random_stream(
        tmp_path / "data",
        sequence_length=512,
        vocabulary_size=1000,
        rows=40,
        document_lengths=(512, 512),
    )
    tokens = TokenStream(folder, 0, 40).batch(0).tokens.numpy()
    counts = np.sort(np.bincount(tokens.ravel(), minlength=1000))[::-1]
    assert counts[:10].sum() > 0.2 * counts.sum() > counts[500:].sum()


@pytest.mark.slow
def test_a_page_of_many_figures_is_measured():
    seconds, *_, figures = printed("benchmarks.report", "--tiny").splitlines()[-1].split()
    assert float(seconds) > 0
    assert int(figures) > 10


def test_processes_that_train_and_evaluate_are_victims_beside_others(tmp_path: Path) -> None:
    programs = ("dreamer_study.model.evaluate", "dreamer_study.model.train")
    groups = [
        started(
            "dreamer_study.model.worker",
            [program, str(tmp_path)],
            tmp_path / "log.txt",
            {},
            asked=True,
        )
        for program in programs
    ]
    killer = Killer(tmp_path, Random(0), kills=2, pace=0.1, lives={"trainer": 1.0})

    def both_are_killed() -> bool:
        killer.look()
        return killer.killed.total() == len(programs)

    until(both_are_killed)
    assert killer.killed == {"trainer": 1, "evaluator": 1}
    assert [group.finish() for group in groups] == [-SIGKILL, -SIGKILL]


@pytest.mark.slow
def test_a_command_that_fails_by_itself_is_wrong_though_it_is_given_again(
    tmp_path: Path, monkeypatch
) -> None:
    (tmp_path / "root").mkdir()
    program = tmp_path / "fails_once.py"
    program.write_text(
        f"import pathlib, sys\nmark = pathlib.Path({str(tmp_path / 'mark')!r})\n"
        "sys.exit(0) if mark.exists() else mark.touch()\nsys.exit(3)"
    )
    monkeypatch.setitem(VICTIMS, "flow", "fails_once")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    killer = Killer(tmp_path / "root", Random(0), kills=0, pace=1.0, lives={})
    outcome = run_study(tmp_path / "study.yaml", killer, None)
    assert (outcome.starts, outcome.wrong) == (2, ["start 1 ended with status 3 before any kill"])


@pytest.mark.slow
def test_training_speed_is_printed_beside_the_reference():
    lines = printed("benchmarks.training_cpu", "--depths", 2, "--seconds", 0.05).splitlines()
    rows = [line.split("|")[1:-1] for line in lines if line.startswith("| 2 |")]
    assert [row[1].strip() for row in rows] == ["LA", "DR", "DR+DA"]
    for row in rows:
        assert float(row[2].replace(",", "")) > 0  # tokens per second
        assert float(row[5].split()[0]) > 0  # to its reference
