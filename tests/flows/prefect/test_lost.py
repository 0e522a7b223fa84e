"""Which flow runs count as lost, those of studies that lie here and that no process runs, and that they are ended."""

from __future__ import annotations

from pathlib import Path

from prefect import flow
from prefect.client.orchestration import SyncPrefectClient
from prefect.states import Pending, Running

from flows.prefect.lost import end_lost_runs, is_lost
from flows.study.loading import load_study
from flows.watching.single import only_run
from tests.flows.small_study import small_study


def test_a_run_is_lost_where_no_process_runs_its_study(tmp_path: Path) -> None:
    path, root = small_study(tmp_path), tmp_path / "run"
    run = {"study": str(path), "root": str(root)}
    with only_run(load_study(path, root=root)):
        assert not is_lost(run)
    assert is_lost(run)
    assert not is_lost({**run, "root": str(tmp_path / "of another machine")})
    odd = [{"study": "nowhere.yaml"}, {"study": "n" * 5000}, {"study": {"name": 1}}, {"study": None}, {}]
    assert not any(map(is_lost, odd))


@flow
def any_flow(study: str, root: str) -> None: ...


def test_a_lost_run_is_crashed_and_one_whose_study_goes_on_runs(client: SyncPrefectClient, tmp_path: Path) -> None:
    path, lost, alive = small_study(tmp_path), tmp_path / "lost", tmp_path / "alive"
    lost.mkdir()
    runs = [
        client.create_flow_run(any_flow, parameters={"study": str(path), "root": str(root)}, state=state)
        for root, state in ((lost, Running()), (alive, Running()), (lost, Pending()))
    ]

    def states() -> list[str | None]:
        return [client.read_flow_run(run.id).state_name for run in runs]

    with only_run(load_study(path, root=alive)):
        end_lost_runs()
        assert states() == ["Crashed", "Running", "Crashed"]
        end_lost_runs(every=True)  # on the server of a study that begins again
        assert states() == ["Crashed"] * 3
