"""Which flow runs count as lost: those of studies that lie here and that no process runs."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

from flows.prefect.lost import lost_runs
from flows.running.single import only_run
from flows.study.loading import load_study
from tests.flows.small_study import small_study


def test_a_run_is_lost_where_no_process_runs_its_study(tmp_path: Path) -> None:
    path, root = small_study(tmp_path), tmp_path / "run"
    run = SimpleNamespace(parameters={"study": str(path), "root": str(root)})
    elsewhere = SimpleNamespace(parameters={"study": str(path), "root": str(tmp_path / "of another machine")})
    others = [elsewhere, SimpleNamespace(parameters={"study": "nowhere.yaml"}), SimpleNamespace(parameters={})]
    with only_run(load_study(path, root=root)):
        assert lost_runs([run, *others]) == []
    assert lost_runs([run, *others]) == [run]
