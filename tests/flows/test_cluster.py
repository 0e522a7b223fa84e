"""Stages on a Dask cluster: the same outputs as here, and errors in one line."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from flows.stages.prepare import prepare_data
from flows.stages.sources import Located, curate_source
from flows.study.loading import load_study
from pipeline.clean import CleanSettings
from pipeline.errors import InputError
from pipeline.sources.table import resolve_source
from pipeline.storage.documents import read_documents
from pipeline.storage.parallel import at_once, workers
from pipeline.storage.store import Output, Store, file_digest

pytestmark = pytest.mark.slow  # starting Dask's workers takes seconds

CURATION = ("documents", "traces", "clean", "deduplicate", "decontaminate")
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


def chain(mirror: Path, name: str, store: Path, **changed: str) -> Callable[..., list[Output]]:
    files = (mirror / "owner" / name / "default" / "train.jsonl",)
    located = Located(resolve_source(entry(name) | changed), files)
    digests = {files[0]: file_digest(files[0])}
    return partial(curate_source, Store(store), located, digests=digests, limit=None, rules=CleanSettings())


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


def test_a_cluster_writes_what_one_process_writes(mirror: Path, tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    here = [chain(mirror, name, tmp_path / "here")() for name in NAMES]
    with workers(2, "local") as run:
        there = at_once(lambda name: chain(mirror, name, tmp_path / "there")(run=run), NAMES, len(NAMES))
    assert [[o.key for o in outputs] for outputs in here] == [[o.key for o in outputs] for outputs in there]
    assert [texts(outputs) for outputs in here] == [texts(outputs) for outputs in there]
    assert [[dict(o.results) for o in outputs] for outputs in here] == [
        [dict(o.results) for o in outputs] for outputs in there
    ]


def test_a_study_prepared_on_a_running_cluster_is_the_same_study(mirror: Path, tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")

    def study(root: Path, cluster: str | None) -> Any:
        return load_study(
            {
                "name": "spread",
                "root": str(root),
                "data": {
                    "sources": [entry(name) for name in NAMES],
                    "mirror": str(mirror),
                    "tokenizer": {"vocabulary_size": 300},
                    "cluster": cluster,
                },
                "training": {"tokens": 10_000, "sequence_length": 64},
                "evaluation": {"benchmarks": [BENCHMARK]},
            }
        )

    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        there = study(tmp_path / "there", cluster.scheduler_address)
        spread = prepare_data(there, Store(there.store_folder))
    here = study(tmp_path / "here", None)
    alone = prepare_data(here, Store(here.store_folder))
    assert there.study_id == here.study_id
    assert spread.outputs == alone.outputs
    stages = [[output for output in prepared.stages if output.stage in CURATION] for prepared in (spread, alone)]
    assert texts(stages[0]) == texts(stages[1])
    found = [[o.path / "matches.parquet" for o in each if o.stage == "decontaminate"] for each in stages]
    assert found[0][0].read_bytes() == found[1][0].read_bytes()
    for name in ("tokens-00000.bin", "index-00000.npy"):
        assert (spread.packed.path / name).read_bytes() == (alone.packed.path / name).read_bytes()


def test_an_error_on_a_worker_is_the_same_error(mirror: Path, tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    with workers(2, "local") as run, pytest.raises(InputError, match="has nothing at solution"):
        chain(mirror, "first", tmp_path, response="solution")(run=run)


def test_a_cluster_that_is_not_there_is_one_line(mirror: Path, tmp_path: Path) -> None:
    with (
        pytest.raises(InputError, match=r"Dask is not installed; pip install|no Dask scheduler answers"),
        workers(1, "tcp://127.0.0.1:1"),
    ):
        pass
