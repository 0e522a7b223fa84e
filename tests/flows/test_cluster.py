"""Stages on a Dask cluster: the same outputs as here, and errors in one line."""

import json
from pathlib import Path
from typing import Any

import pytest

import flows.prepare
from flows.plan import Plan
from flows.prepare import prepare_data
from flows.study.loading import load_study
from pipeline.errors import InputError
from pipeline.storage.documents import read_documents
from pipeline.storage.parallel import workers
from tests.flows.by_hand import at_once

pytestmark = pytest.mark.slow  # starting Dask's workers takes seconds

NAMES = ("first", "second", "third")
BENCHMARK = {"name": "b", "repository": "owner/items", "task": "b", "metric": "acc", "question": "q", "split": "train"}


@pytest.fixture(scope="module")
def mirror(tmp_path_factory: pytest.TempPathFactory) -> Path:
    mirror = tmp_path_factory.mktemp("mirror")
    for name in (*NAMES, "items"):
        folder = mirror / "owner" / name / "default"
        folder.mkdir(parents=True)
        rows = [
            {
                "q": f"{name}: what is {i * 37} and {i}?",
                "r": f"<think>{'hm ' * 20}</think>It is {2 * i}." if i % 9 else "",
            }
            for i in range(400)
        ]
        (folder / "train.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
    return mirror


def entry(name: str) -> dict[str, str]:
    return {"name": name, "repository": f"owner/{name}", "question": "q", "response": "r"}


def prepare(mirror: Path, root: Path, cluster: str | None = None, **changed: str) -> Plan:
    """Prepare a study of all sources, of which the first may be changed."""
    first, *others = [entry(name) for name in NAMES]
    data = {"sources": [first | changed, *others], "mirror": str(mirror), "tokenizer": {"vocabulary_size": 300}}
    plan = Plan(
        load_study(
            {
                "name": "spread",
                "root": str(root),
                "data": data,
                "compute": {"cluster": cluster},
                "training": {"tokens": 10_000, "sequence_length": 64},
                "evaluation": {"benchmarks": [BENCHMARK]},
            }
        )
    )
    prepare_data(plan, at_once)
    return plan


def texts(outputs: list[Any]) -> list[Any]:
    return [
        [
            row
            for kind in ("documents", "dropped")
            for batch in read_documents(o.path, kind=kind)
            for row in batch.to_pylist()
        ]
        for o in outputs
    ]


def test_a_study_prepared_on_a_running_cluster_is_the_same_study(
    mirror: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(flows.prepare, "WORTH_PROCESSES", 0)
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        there = prepare(mirror, tmp_path / "there", cluster.scheduler_address)
    monkeypatch.undo()
    here = prepare(mirror, tmp_path / "here")
    assert there.study.study_id == here.study.study_id
    spread, alone = there.data, here.data
    assert [output.name for output in spread.outputs] == [output.name for output in alone.outputs]
    assert texts(spread.counted) == texts(alone.counted)
    assert [dict(one.results) for one in spread.counted] == [dict(one.results) for one in alone.counted]
    matches = [(one.curated.path / "matches.parquet").read_bytes() for one in (spread, alone)]
    assert matches[0] == matches[1]
    for name in ("tokens-00000.bin", "index-00000.npy"):
        assert (spread.packed.path / name).read_bytes() == (alone.packed.path / name).read_bytes()


def test_an_error_on_a_worker_is_the_same_error(mirror: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(flows.prepare, "WORTH_PROCESSES", 0)
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster,
        pytest.raises(InputError, match='column "solution" not found'),
    ):
        prepare(mirror, tmp_path, cluster.scheduler_address, response="solution")


def test_a_cluster_that_is_not_there_is_one_line(mirror: Path, tmp_path: Path) -> None:
    with (
        pytest.raises(InputError, match="no Dask scheduler answers"),
        workers(1, "tcp://127.0.0.1:1"),
    ):
        pass
