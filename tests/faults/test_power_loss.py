"""Data, trainings and evaluations that lose power at any moment end as if nothing had happened."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from flows.plan import Plan
from flows.prepare import prepare_data
from flows.run import Shown
from flows.study.loading import load_study
from model.evaluate import evaluate
from model.evaluation.job import read_job
from model.train import train
from pipeline.decontaminate.settings import DecontaminationSettings
from pipeline.decontaminate.stage import decontaminate
from pipeline.dedup.settings import DedupSettings
from pipeline.dedup.stage import deduplicate
from pipeline.storage.integrity import MANIFEST
from pipeline.tokens.stage import pack
from pipeline.tokens.tokenizer import train_tokenizer
from tests.faults.power_loss import outlive
from tests.flows.small_study import small_study
from tests.model.evaluation.evaluation_world import plain_specifications, write_job, write_place
from tests.model.packed_folder import write_run
from tests.pipeline.storage.test_resumable import corpus
from tests.pipeline.tokens.token_documents import DOCUMENTS, write

# The log holds seconds too, and so do files of which there are digests.
MEASURED = ("seconds", "log_bytes", "log_sum", "tokens_per_second", "seal", "values.json", "checkpoint.json")


def prepare(root: Path) -> None:
    prepare_data(Plan(load_study(root.parent / "small.yaml", root=root)), Shown().call)


def deduplicate_all(root: Path) -> None:
    deduplicate([root / "in"], root / "out", DedupSettings())


def decontaminate_all(root: Path) -> None:
    decontaminate(root / "in", root / "out", pq.read_table(root / "items.parquet"), DecontaminationSettings())


def pack_all(root: Path) -> None:
    options = {"sequence_length": 64, "seed": 5, "validation": 2, "shard_bytes": 2000}
    pack(root / "in", root / "tokenizer", root / "out", **options)


def train_run(root: Path) -> None:
    train(root / "run")


def evaluate_job(root: Path) -> None:
    evaluate(read_job(root / "job.json"))


def contents(folder: Path) -> dict[str, Any]:
    """All files of a folder but locks, which nobody holds; of JSON files what no clock has measured."""
    found: dict[str, Any] = {}
    for path in folder.rglob("*"):
        if path.is_file() and path.suffix != ".lock":
            found[str(path.relative_to(folder))] = (
                {name: value for name, value in json.loads(path.read_text()).items() if name not in MEASURED}
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
    train_run(tmp_path / "calm")
    assert outlive(train_run, tmp_path / "root", tmp_path / "kept") > 5
    for kind in ("state", "checkpoints"):
        assert contents(tmp_path / "root" / "run" / kind) == contents(tmp_path / "calm" / "run" / kind)


@pytest.mark.slow
def test_evaluation(tmp_path: Path) -> None:
    place = write_place(tmp_path / "root")
    shutil.copytree(place, tmp_path / "calm")
    for each in (place, tmp_path / "calm"):
        write_job(each, "job", tasks=plain_specifications(each))
    evaluate_job(tmp_path / "calm")
    assert outlive(evaluate_job, place, tmp_path / "kept") > 3
    assert contents(place / "job" / "run") == contents(tmp_path / "calm" / "job" / "run")
