"""Stages on a Dask cluster: the same outputs as here, and errors in one line."""

from pathlib import Path
from typing import Any

import pytest

import flows.prepare
from pipeline.errors import InputError
from pipeline.storage.documents import read_documents
from pipeline.storage.parallel import workers
from tests.flows.own_rows import entry, prepared_of, write_rows

NAMES = ("first", "second", "third")


def texts(outputs: list[Any]) -> list[Any]:
    return [
        row
        for output in outputs
        for kind in ("documents", "dropped")
        for batch in read_documents(output.path, kind=kind)
        for row in batch.to_pylist()
    ]


@pytest.mark.slow  # starting Dask's workers takes seconds
def test_a_study_prepared_on_a_running_cluster_is_the_same_study(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    distributed, mirror, sources = pytest.importorskip("distributed"), tmp_path / "mirror", [*map(entry, NAMES)]
    for name in (*NAMES, "items"):
        answers = (f"<think>{'hm ' * 20}</think>It is {2 * i}." if i % 9 else "" for i in range(400))
        rows = ({"q": f"{name}: what is {i * 37} and {i}?", "r": answer} for i, answer in enumerate(answers))
        write_rows(mirror, name, rows)
    monkeypatch.setattr(flows.prepare, "WORTH_PROCESSES", 0)
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        there = {"cluster": cluster.scheduler_address}
        spread = prepared_of(mirror, tmp_path / "there", *sources, **there)
        with pytest.raises(InputError, match='column "solution" not found'):
            prepared_of(mirror, tmp_path / "wrong", entry("first", response="solution"), *sources[1:], **there)
    monkeypatch.undo()
    alone = prepared_of(mirror, tmp_path / "here", *sources)
    assert spread.study.study_id == alone.study.study_id
    assert [output.name for output in spread.data.outputs] == [output.name for output in alone.data.outputs]
    assert texts(spread.data.counted) == texts(alone.data.counted)
    assert [dict(one.results) for one in spread.data.counted] == [dict(one.results) for one in alone.data.counted]
    for output, name in (("curated", "matches.parquet"), ("packed", "tokens-00000.bin"), ("packed", "index-00000.npy")):
        first, second = (getattr(plan.data, output).path / name for plan in (spread, alone))
        assert first.read_bytes() == second.read_bytes(), name


def test_a_cluster_that_is_not_there_is_one_line() -> None:
    pytest.importorskip("distributed")
    with pytest.raises(InputError, match="no Dask scheduler answers"), workers(1, "tcp://127.0.0.1:1"):
        pass
