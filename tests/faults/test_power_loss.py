"""Data, trainings and evaluations that lose power at any moment end as if nothing had happened."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from threading import RLock
from typing import Any

import pyarrow.parquet as pq
import pytest

from dreamer_study.flows.plan.study_plan import Plan
from dreamer_study.flows.running.curation import prepare_data
from dreamer_study.flows.running.steps import Steps
from dreamer_study.flows.study.loading import load_study
from dreamer_study.model.evaluate import evaluate
from dreamer_study.model.evaluation.job import read_job
from dreamer_study.model.train import train
from dreamer_study.pipeline.decontaminate.decontaminate import decontaminate
from dreamer_study.pipeline.decontaminate.settings import DecontaminationSettings
from dreamer_study.pipeline.dedup.deduplicate import deduplicate
from dreamer_study.pipeline.dedup.settings import DedupSettings
from dreamer_study.pipeline.storage.integrity import MANIFEST
from dreamer_study.pipeline.tokens.pack_shards import pack
from dreamer_study.pipeline.tokens.tokenizer import train_tokenizer
from tests.copies import exit_status
from tests.flows.small_study import small_study
from tests.model.evaluation.evaluation_world import held_out_specifications, write_job, write_place
from tests.model.packed_folder import write_run
from tests.pipeline.storage.test_resumable import corpus
from tests.pipeline.tokens.token_documents import DOCUMENTS, write

# The log holds seconds too, and so do files of which there are digests.
MEASURED = (
    "seconds",
    "log_bytes",
    "log_sum",
    "tokens_per_second",
    "seal",
    "values.json",
    "checkpoint.json",
)

LOSSES = 200

# A loss of power, simulated: what was written and not synced is lost. Work runs in a process whose
# `os.fsync` keeps a copy of each file that is synced. The power fails instead of one of the syncs.
# Then a file has the bytes of its last sync, none where the file was never synced; half of the
# files, by chance, have the bytes of that moment, as the kernel writes files back whenever it
# likes. Folders have the names of that moment or, every other time by chance, those of the last
# sync: a journal keeps the order of names, and may not have written the newest.


class Disk:
    """The files below `root`, of which copies of what is durable lie in `kept`; the power fails at
    sync `last`."""

    def __init__(self, root: Path, kept: Path, last: int, seed: int) -> None:
        self.root, self.kept, self.left = root, kept, last
        self._chance = Random(seed)
        self._lock = RLock()  # states are saved by a thread
        self._open: list[int] = []  # files held open, so that no other file gets their inode
        for path in root.rglob("*"):
            if path.is_file():
                self._keep(path)
        self._tree = self._list()

    def fsync(self, handle: int) -> None:
        """Record the bytes of a synced file, and the names of all files at this moment, as
        durable."""
        with self._lock:
            self.left -= 1
            if self.left < 0:
                self.lose_power()
            path = Path(os.readlink(f"/proc/self/fd/{handle}"))
            if path.is_relative_to(self.root) and path.is_file():
                self._keep(path)
            self._tree = self._list()

    def lose_power(self) -> None:
        """End the process, and leave beside the copies which files the disk has."""
        for name in sorted(name for name, inode in self._list().items() if inode is not None):
            with suppress(FileNotFoundError):  # another thread has just renamed the file
                if self._chance.random() < 0.5:
                    self._keep(self.root / name)
        tree = self._chance.choice([self._list(), self._tree])
        (self.kept / "tree.json").write_text(json.dumps(tree))
        os.kill(os.getpid(), signal.SIGKILL)

    def _keep(self, path: Path) -> None:
        self._open.append(os.open(path, os.O_RDONLY))
        shutil.copy2(path, self.kept / str(os.fstat(self._open[-1]).st_ino))

    def _list(self) -> dict[str, int | None]:
        """List folders (None) and files (their inodes) below the root, folders before what is in
        them."""
        found: dict[str, int | None] = {}
        # reads each folder once: another thread may be making one
        for folder, folders, files in os.walk(self.root):
            place = Path(folder)
            found.update({str((place / name).relative_to(self.root)): None for name in folders})
            for name in files:
                with suppress(FileNotFoundError):  # another thread has just given the file its name
                    found[str((place / name).relative_to(self.root))] = (place / name).stat().st_ino
        return found


def restore(root: Path, kept: Path) -> None:
    """Lay out what the disk has after a loss of power."""
    shutil.rmtree(root)
    root.mkdir()
    for name, inode in json.loads((kept / "tree.json").read_text()).items():
        if inode is None:
            (root / name).mkdir()
        elif (kept / str(inode)).exists():
            shutil.copy2(kept / str(inode), root / name)
        else:
            (root / name).touch()


def outlive(work: Callable[[Path], object], root: Path, copies: Path) -> int:
    """Call `work(root)` again after every loss of power until the work ends; return the number of
    losses.

    The power fails at a random sync, soon in the first attempts: a stage may sync dozens of files
    before it is named.
    """
    chance = Random(0)
    for losses in range(LOSSES):
        kept = copies / str(losses)
        kept.mkdir(parents=True)
        status = exit_status(_work, work, root, kept, chance.randrange(3 + 2 * losses), losses)
        if status == 0:
            return losses
        assert status == -signal.SIGKILL, f"the work failed after {losses} losses of power"
        restore(root, kept)
        shutil.rmtree(kept)
    raise AssertionError(f"not finished after {LOSSES} losses of power")


def _work(work: Callable[[Path], object], root: Path, kept: Path, last: int, seed: int) -> None:
    os.fsync = Disk(root, kept, last, seed).fsync
    work(root)


def prepare(root: Path) -> None:
    prepare_data(Plan(load_study(root.parent / "small.yaml", root=root)), Steps())


def deduplicate_all(root: Path) -> None:
    deduplicate([root / "in"], root / "out", DedupSettings())


def decontaminate_all(root: Path) -> None:
    decontaminate(
        root / "in", root / "out", pq.read_table(root / "items.parquet"), DecontaminationSettings()
    )


def pack_all(root: Path) -> None:
    options = {"sequence_length": 64, "seed": 5, "validation": 2, "shard_bytes": 2000}
    pack(root / "in", root / "tokenizer", root / "out", **options)


def train_run(root: Path) -> None:
    train(root / "run")


def evaluate_job(root: Path) -> None:
    evaluate(read_job(root / "job.json"))


def contents(folder: Path) -> dict[str, Any]:
    """All files of a folder but locks, which nobody holds; of JSON files what no clock has
    measured."""
    found: dict[str, Any] = {}
    for path in folder.rglob("*"):
        if path.is_file() and path.suffix != ".lock":
            found[str(path.relative_to(folder))] = (
                {
                    name: value
                    for name, value in json.loads(path.read_text()).items()
                    if name not in MEASURED
                }
                if path.name in (MANIFEST, "checkpoint.json", "values.json", "checksums.json")
                else path.read_bytes()
            )
    return found


@pytest.mark.slow
def test_data(tmp_path: Path) -> None:
    small_study(tmp_path)
    (tmp_path / "run").mkdir()
    prepare(tmp_path / "calm")
    assert outlive(prepare, tmp_path / "run", tmp_path / "kept") > 3
    assert contents(tmp_path / "run" / "store") == contents(tmp_path / "calm" / "store")


@pytest.mark.slow
@pytest.mark.parametrize("stage", [deduplicate_all, decontaminate_all, pack_all])
def test_stages_of_several_shards(tmp_path: Path, stage: Callable[[Path], None]) -> None:
    calm, root = tmp_path / "calm", tmp_path / "root"
    if stage is pack_all:
        write(calm / "in", DOCUMENTS, rows=7, shard_bytes=1000)
        train_tokenizer(calm / "in", calm / "tokenizer", 400)
    else:
        pq.write_table(corpus(calm, rows=800), calm / "items.parquet")
    shutil.copytree(calm, root)
    stage(calm)
    assert outlive(stage, root, tmp_path / "kept") > 3
    assert contents(root / "out") == contents(calm / "out")


@pytest.mark.slow
def test_training(tmp_path: Path) -> None:
    for place in ("calm", "root"):
        (tmp_path / place).mkdir()
        write_run(tmp_path / place)
    # in a process of its own, as those that lose power: here threads of earlier tests (Dask's) draw
    # from the generator of Python, whose state is saved
    assert exit_status(train_run, tmp_path / "calm") == 0
    assert outlive(train_run, tmp_path / "root", tmp_path / "kept") > 5
    for kind in ("state", "checkpoints"):
        assert contents(tmp_path / "root" / "run" / kind) == contents(
            tmp_path / "calm" / "run" / kind
        )


@pytest.mark.slow
def test_evaluation(tmp_path: Path) -> None:
    place = write_place(tmp_path / "root")
    shutil.copytree(place, tmp_path / "calm")
    for each in (place, tmp_path / "calm"):
        write_job(each, "job", tasks=held_out_specifications(each, 3))
    evaluate_job(tmp_path / "calm")
    assert outlive(evaluate_job, place, tmp_path / "kept") > 3
    assert contents(place / "job" / "run") == contents(tmp_path / "calm" / "job" / "run")
