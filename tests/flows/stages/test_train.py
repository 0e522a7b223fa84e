"""Training of all models: a run that fails ends no other run, and is tried again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from flows.full_study import raise_failures
from flows.running.machines.staying import Staying
from flows.running.processes import Failed
from flows.stages.ingest import ingest_runs
from flows.stages.models import plan_models
from flows.stages.outputs import Evaluated, Prepared, Trained, read_finished
from flows.stages.train import TRAINER, train_models
from flows.study.configuration import Study
from flows.study.loading import load_study
from pipeline.storage.store import Missing, Store
from sql.results import query
from tests.flows.small_study import TINY


class Trainings:
    """Stands for the training processes: notes which seeds are trained; those in `failing` end with status 1."""

    def __init__(self, failing: Sequence[str]) -> None:
        self.failing, self.trained = set(failing), []

    def ask(self, request: dict[str, Any], environment: dict[str, str], **_: Any) -> None:
        folder = Path(request["arguments"][0])
        run = json.loads((folder / "run.json").read_text())
        name = f"{run['variant']}-{run['seed']}"
        self.trained.append(name)
        if name in self.failing:
            reason = f"{folder}: step 3: the loss is not a number"
            raise Failed(f"{TRAINER} ended with status 1; see its log: {reason}", reason)
        row = {"run_id": run["run_id"], "seed": run["seed"], "status": "complete", "tokens": 5}
        step = {"run_id": run["run_id"], "step": 1, "tokens": 5, "loss": 1.0}
        for table, values in (("runs", row), ("steps", step)):
            (folder / "rows").mkdir(exist_ok=True)
            pq.write_table(pa.Table.from_pylist([values]), folder / "rows" / f"{table}.parquet")
        (folder / "progress.json").write_text(json.dumps({"ranks": 2}))
        (folder / "steps.csv").write_text("step,tokens,loss\n1,5,1.0\n")


def prepared_study(root: Path, screening: float) -> tuple[Study, Store, Prepared]:
    content = yaml.safe_load(TINY.read_text())
    content["training"]["screening"] = screening
    study = load_study(content, root=root)
    store = Store(study.store_folder)
    packed = store.build("tokens", 1, {}, [], lambda folder: {})
    return study, store, Prepared(study.study_id, store.root, (packed.name,))


def test_a_failed_run_ends_no_other_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study, store, prepared = prepared_study(tmp_path, screening=0)
    planned = plan_models(study, 300)
    seeds = study.training.seeds
    every = sorted(f"{model.variant}-{seed}" for model in planned for seed in seeds)
    failing = f"DR-{seeds[0]}"
    first = Trainings([failing])
    monkeypatch.setattr(Staying, "ask", first.ask)
    trained = train_models(study, store, prepared, planned)
    assert sorted(first.trained) == every
    assert {f"{run.model_id.split('-')[0]}-{run.seed}" for run in trained.runs if run.status == "failed"} == {failing}
    (failed,) = [run for run in trained.runs if run.status == "failed"]
    assert failed.failure == "step 3: the loss is not a number"
    assert read_finished(study, Trained) == trained
    ingest_runs(study, planned, trained)
    found = query(study.database, "from runs join run_details using (run_id) where status = 'failed'")
    assert found[["run_id", "failure"]].values.tolist() == [[failed.run_id, failed.failure]]
    assert query(study.database, "from run_details where devices = 2").shape[0] == len(every) - 1
    with pytest.raises(
        Failed, match=rf"1 failed, the report of the others is here; training of {failed.run_id}: step 3"
    ):
        raise_failures(trained, Evaluated(study.study_id, store.root, {}), "here")

    # The study is not complete, and the next call goes on with the run that failed; the others lie in the store.
    with pytest.raises(Missing):
        train_models(study, Store(store.root, builds=False), prepared, planned)
    again = Trainings([])
    monkeypatch.setattr(Staying, "ask", again.ask)
    trained = train_models(study, store, prepared, planned)
    assert sorted(again.trained) == sorted(name for name in every if name.split("-")[0] == failing.split("-")[0])
    assert {run.status for run in trained.runs} == {"complete"}
    ingest_runs(study, planned, trained)
    assert query(study.database, "from run_details where failure is not null").empty
    raise_failures(trained, Evaluated(study.study_id, store.root, {}), "here")


def test_a_model_whose_seeds_all_fail_in_screening_has_none_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study, store, prepared = prepared_study(tmp_path, screening=0.25)
    monkeypatch.setattr(Staying, "ask", Trainings(["DR-0", "DR-1", "LA-0"]).ask)
    trained = train_models(study, store, prepared, plan_models(study, 300))
    found = {f"{run.model_id.split('-')[0]}-{run.seed}": run.status for run in trained.runs}
    assert found == {
        **{"LA-0": "failed", "LA-1": "complete"},
        **{"DR-0": "failed", "DR-1": "failed"},
        **{"DR+DA-0": "complete", "DR+DA-1": "screened"},
    }
    again = Trainings([])
    monkeypatch.setattr(Staying, "ask", again.ask)
    trained = train_models(study, store, prepared, plan_models(study, 300))
    assert {"LA-0", "DR-0", "DR-1"} <= set(again.trained), "seeds that failed in screening are tried again"
    assert {run.status for run in trained.runs} == {"complete", "screened"}
