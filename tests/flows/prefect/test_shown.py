"""What Prefect shows of a study: its steps and jobs by name with their states; and a lost server changes nothing."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pandas as pd
import pytest
from prefect import flow, runtime
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterKey, FlowRunFilter, FlowRunFilterId
from prefect.states import Cancelling
from prefect.task_runners import ThreadPoolTaskRunner

import flows.prefect.shown
from flows.jobs import Event, Failed, Job, Stopped
from flows.prefect.shown import InPrefect, artifact_key, table_rows
from flows.study.loading import load_study
from pipeline.errors import InputError
from tests.flows.small_study import TINY
from tests.waiting import until

STUDY = load_study(TINY)


def in_flow(script: Callable[[InPrefect], Any]) -> str:
    """Call a script with what shows a study in a flow run; returns the id of the run, whatever becomes of it."""
    runs: list[str] = []

    @flow(name="full-study", flow_run_name="tiny", task_runner=ThreadPoolTaskRunner(), persist_result=False)
    def shows() -> None:
        runs.append(runtime.flow_run.id)
        shown = InPrefect(STUDY)
        try:
            script(shown)
        finally:
            shown.close()

    shows(return_state=True)
    return runs[0]


def states(client: SyncPrefectClient, run: str, expected: int) -> dict[str, str]:
    """The states of the tasks of a flow run, by name; the server hears of them a moment later."""
    found: dict[str, str] = {}

    def ended() -> bool:
        tasks = client.read_task_runs(flow_run_filter=FlowRunFilter(id=FlowRunFilterId(any_=[run])))
        found.update({task.name: task.state_name or "" for task in tasks if task.state and task.state.is_final()})
        return len(found) == expected

    until(ended)
    return found


def job(folder: Path, kind: str, name: str) -> Job:
    folder.mkdir(exist_ok=True)
    return Job(kind, name, "model.train", (), folder, folder / "log.txt", goal=1000)  # type: ignore[arg-type]


def write_progress(job: Job, tokens: int) -> None:
    (job.folder / "progress.json").write_text(json.dumps({"tokens": tokens, "tokens_per_second": 10}))


def test_steps_and_jobs_are_tasks_by_name_with_their_states(
    client: SyncPrefectClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flows.prefect.shown, "TELL_SECONDS", 0.0)
    good, bad = job(tmp_path / "a", "training", "train LA-2 seed 0"), job(tmp_path / "b", "evaluation", "evaluate LA-2")
    failure = Failed("train LA-2 seed 1: python -m model.train ended with status 1; see its log")

    def script(shown: InPrefect) -> None:
        assert shown.call("data", "clean world", lambda: 42) == 42
        with pytest.raises(InputError, match="no such item"):
            shown.call("match", "match models", lambda: _raise(InputError("no such item")))
        for one in (good, bad):
            shown.tell(Event(one, "started"))
        write_progress(good, 500)
        good.log.write_text("step 10, loss 2.5\n")
        shown.tell(Event(good, "progress"))
        shown.tell(Event(good, "checkpoint"))
        shown.tell(Event(good, "finished"))
        shown.tell(Event(bad, "failed", failure))
        raise failure

    run = in_flow(script)
    assert states(client, run, 4) == {
        "clean world": "Completed",
        "match models": "Failed",
        good.name: "Completed",
        bad.name: "Failed",
    }
    shown = client.read_flow_run(run)
    assert (shown.name, shown.state_name, shown.tags) == ("tiny", "Failed", ["tiny"])
    assert "train LA-2 seed 1" in (shown.state.message or "")
    key = artifact_key("tiny", good.name)
    (artifact,) = client.read_artifacts(artifact_filter=ArtifactFilter(key=ArtifactFilterKey(any_=[key])))
    assert artifact.data == 100.0
    assert "500 tokens" in (artifact.description or "")
    until(lambda: "step 10, loss 2.5" in {log.message for log in client.read_logs()})


def _raise(error: BaseException) -> None:
    raise error


def test_tasks_of_jobs_that_never_ended_end_with_the_study(client: SyncPrefectClient, tmp_path: Path) -> None:
    one = job(tmp_path / "a", "training", "train DR-2 seed 0")
    run = in_flow(lambda shown: shown.tell(Event(one, "started")))
    assert states(client, run, 1) == {one.name: "Failed"}
    assert client.read_flow_run(run).state_name == "Completed"


def test_a_run_that_is_cancelled_in_prefect_is_stopped_at_the_next_event(
    client: SyncPrefectClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flows.prefect.shown, "LOOK_SECONDS", 0.05)
    one, stopped = job(tmp_path / "a", "training", "train LA-2 seed 0"), []

    def script(shown: InPrefect) -> None:
        shown.tell(Event(one, "started"))
        client.set_flow_run_state(runtime.flow_run.id, Cancelling())

        def told() -> bool:
            try:
                shown.tell(Event(one, "progress"))
            except Stopped as error:
                stopped.append(error)
            return bool(stopped)

        until(told)

    in_flow(script)
    assert len(stopped) == 1


def refuse(*_: Any, **__: Any) -> None:
    raise httpx.ConnectError("All connection attempts failed")


@pytest.mark.parametrize("seen_by", ["the study", "the look for a cancellation"])
def test_a_lost_server_is_said_once_and_every_body_runs_once(
    client: SyncPrefectClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen_by: str
) -> None:
    said: list[str] = []
    monkeypatch.setattr(flows.prefect.shown, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(flows.prefect.shown.progress, "write_line", said.append)
    one, called, done = job(tmp_path / "a", "training", "train LA-2 seed 0"), [], []

    def body(name: str) -> str:
        if name == "amid":
            methods = [
                part for part in dir(SyncPrefectClient) if part.startswith(("read_", "create_", "update_", "set_"))
            ]
            for method in methods if seen_by == "the study" else ["read_flow_run"]:
                monkeypatch.setattr(SyncPrefectClient, method, refuse)
        called.append(name)
        return name

    def script(shown: InPrefect) -> None:
        assert shown.call("data", "before", lambda: body("before")) == "before"
        assert shown.call("data", "amid", lambda: body("amid")) == "amid"
        if seen_by != "the study":
            until(lambda: shown._lost.is_set())
        shown.tell(Event(one, "started"))
        assert shown.call("match", "after", lambda: body("after")) == "after"
        with pytest.raises(InputError, match="no such item"):
            shown.call("statistics", "fails", lambda: _raise(InputError("no such item")))
        shown.tell(Event(one, "finished"))
        until(lambda: shown._lost.is_set())  # the study need not ask the server for anything before its end
        done.append(True)

    with suppress(httpx.ConnectError):  # the end of the flow run, of which no server hears
        in_flow(script)
    assert called == ["before", "amid", "after"]
    assert done == [True]
    assert ["is lost" in line for line in said] == [True]


def test_infinity_is_said_in_words_and_what_is_missing_is_null() -> None:
    columns = {"low": [0.5, -math.inf], "high": [math.inf, math.nan], "bound": ["exact", None]}
    rows = table_rows(pd.DataFrame({**columns, "seeds": pd.array([2, None], "Int64")}))
    assert rows == [
        {"low": 0.5, "high": "unbounded", "bound": "exact", "seeds": 2},
        {"low": "-unbounded", "high": None, "bound": None, "seeds": None},
    ]
    assert json.loads(json.dumps(rows, allow_nan=False)) == rows
    assert table_rows(pd.DataFrame({"factor": []})) == []
