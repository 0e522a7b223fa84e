"""What Prefect is told and what it shows: steps and jobs, logs, links, a lost server, the served
flow."""

from __future__ import annotations

import json
import logging
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from prefect import flow, runtime
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import (
    ArtifactFilter,
    ArtifactFilterKey,
    FlowRunFilter,
    FlowRunFilterId,
)
from prefect.logging.handlers import PrefectConsoleHandler
from prefect.states import Cancelling, Pending, Running
from prefect.task_runners import ThreadPoolTaskRunner

import dreamer_study.flows.prefect.tasks
from dreamer_study.flows.jobs import Event, Failed, Job, Stopped
from dreamer_study.flows.prefect.logs import outlive_readers, plain_errors
from dreamer_study.flows.prefect.lost_runs import end_lost_runs, is_lost
from dreamer_study.flows.prefect.report_links import link_to_report, serving_reports
from dreamer_study.flows.prefect.tasks import InPrefect, artifact_key
from dreamer_study.flows.progress.study_lock import only_run
from dreamer_study.flows.study.configuration import Study
from dreamer_study.flows.study.loading import as_file, lasting_name, load_study, presets
from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.storage.digests import digest
from tests.flows.small_study import TINY, small_study
from tests.waiting import until


def written(root: Path, words: str) -> Study:
    study = load_study(TINY, root=root)
    study.report.parent.mkdir(parents=True)
    study.report.write_text(f"<html><body>{words}</body></html>")
    return study


def test_reports_open_from_a_page_of_a_server_also_two_of_one_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    first, second = written(tmp_path / "first", "Tokens"), written(tmp_path / "second", "Others")
    assert link_to_report(first) == first.report.as_uri()
    with serving_reports() as address, serving_reports(int(address.rpartition(":")[2])) as other:
        assert other != address
        links = [link_to_report(study) for study in (first, second, first, second)]
        assert links[:2] == links[2:]
        # As in `make up`, whose flow runs have another temporary folder.
        monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path / "dreamer-0" / "runner"))
        for link, words in zip(links[:2], (b"Tokens", b"Others"), strict=True):
            assert link.startswith(f"{other}/tiny-")
            assert digest(str(first.report.resolve()))[:8] not in link, (
                "who knows the folder does not know the link"
            )
            with urllib.request.urlopen(link) as answer:
                assert words in answer.read()
        for name in ("tiny", "..", "../reports", ""):
            with pytest.raises(urllib.error.HTTPError, match="404"):
                urllib.request.urlopen(f"{other}/{name}/")


def test_a_run_is_lost_where_no_process_runs_its_study(tmp_path: Path) -> None:
    path, root = small_study(tmp_path), tmp_path / "run"
    run = {"study": str(path), "root": str(root)}
    with only_run(load_study(path, root=root)):
        assert not is_lost(run)
    assert is_lost(run)
    assert not is_lost({**run, "root": str(tmp_path / "of another machine")})
    odd = [
        {"study": "nowhere.yaml"},
        {"study": "n" * 5000},
        {"study": {"name": 1}},
        {"study": None},
        {},
    ]
    assert not any(map(is_lost, odd))


def test_a_study_of_a_relative_path_is_found_from_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_study(tmp_path)
    monkeypatch.chdir(tmp_path)
    study = load_study("small.yaml", root="run")
    study.folder.mkdir()
    monkeypatch.chdir("/")
    assert is_lost({"study": lasting_name(study), "root": str(study.folder)})
    assert lasting_name(load_study("demo")) == "demo"


@flow
def any_flow(study: str, root: str) -> None: ...


def test_a_lost_run_is_crashed_and_one_whose_study_goes_on_runs(
    client: SyncPrefectClient, tmp_path: Path
) -> None:
    path, lost, alive = small_study(tmp_path), tmp_path / "lost", tmp_path / "alive"
    lost.mkdir()
    runs = [
        client.create_flow_run(
            any_flow, parameters={"study": str(path), "root": str(root)}, state=state
        )
        for root, state in ((lost, Running()), (alive, Running()), (lost, Pending()))
    ]

    def states() -> list[str | None]:
        return [client.read_flow_run(run.id).state_name for run in runs]

    with only_run(load_study(path, root=alive)):
        end_lost_runs()
        assert states() == ["Crashed", "Running", "Crashed"]
        end_lost_runs(every=True)  # on the server of a study that begins again
        assert states() == ["Crashed"] * 3


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    """A logger whose handler writes to a pipe that nobody reads."""
    reader, writer = os.pipe()
    os.close(reader)
    logger = logging.getLogger("prefect.flow_runs.unread")
    # which a stream tells again when it is closed
    with suppress(BrokenPipeError), os.fdopen(writer, "w") as stream:
        handler = PrefectConsoleHandler(stream)
        logger.addHandler(handler)
        logger.propagate = False
        yield logger
        logger.removeHandler(handler)


def test_a_log_line_that_nobody_reads_does_not_end_the_process(logger: logging.Logger) -> None:
    outlive_readers()
    for line in range(3):
        logger.error("line %d", line)


@pytest.mark.parametrize("name", ["prefect.flow_runs", "prefect.task_runs", "prefect.engine"])
def test_an_error_of_a_user_is_logged_without_a_traceback(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    plain_errors()
    logger = logging.getLogger(name)
    monkeypatch.setattr(logger, "propagate", True)
    monkeypatch.setattr(logger, "handlers", [])  # one of which asks for a flow run
    for error in (
        InputError("no such study"),
        Stopped("train LA-2 seed 0"),
        KeyError("of the program"),
    ):
        try:
            raise error
        except Exception as raised:
            logger.exception("%r", raised)
    assert caplog.text.count("Traceback") == 1
    assert "no such study" in caplog.text


@pytest.mark.parametrize("name", presets())
def test_values_come_back_from_their_file(name: str, tmp_path: Path) -> None:
    study = load_study(name)
    path = as_file(study, root=tmp_path)
    assert Path(path) == tmp_path / "study.yaml"
    assert load_study(path).model_dump(exclude={"root"}) == study.model_dump(exclude={"root"})
    assert as_file(name) == name
    assert yaml.safe_load((tmp_path / "study.yaml").read_text())["name"] == name


STUDY = load_study(TINY)


def in_flow(script: Callable[[InPrefect], Any]) -> str:
    """Call a script with what shows a study in a flow run; returns the id of the run, whatever
    becomes of it."""
    runs: list[str] = []

    @flow(
        name="full-study",
        flow_run_name="tiny",
        task_runner=ThreadPoolTaskRunner(),
        persist_result=False,
    )
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
        found.update(
            {
                task.name: task.state_name or ""
                for task in tasks
                if task.state and task.state.is_final()
            }
        )
        return len(found) == expected

    until(ended)
    return found


def job(folder: Path, kind: str, name: str) -> Job:
    folder.mkdir(exist_ok=True)
    return Job(kind, name, "dreamer_study.model.train", (), folder, folder / "log.txt", goal=1000)  # type: ignore[arg-type]


def test_steps_and_jobs_are_tasks_by_name_with_their_states(
    client: SyncPrefectClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dreamer_study.flows.prefect.tasks, "TELL_SECONDS", 0.0)
    good, bad = (
        job(tmp_path / "a", "training", "train LA-2 seed 0"),
        job(tmp_path / "b", "evaluation", "evaluate LA-2"),
    )
    failure = Failed(
        "train LA-2 seed 1: python -m dreamer_study.model.train ended with status 1; see its log"
    )

    def script(shown: InPrefect) -> None:
        assert shown.call("data", "clean world", lambda: 42) == 42
        with pytest.raises(InputError, match="no such item"):
            shown.call("match", "match models", lambda: _raise(InputError("no such item")))
        for one in (good, bad):
            shown.tell(Event(one, "started"))
        (good.folder / "progress.json").write_text(
            json.dumps({"tokens": 500, "tokens_per_second": 10})
        )
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
    (artifact,) = client.read_artifacts(
        artifact_filter=ArtifactFilter(key=ArtifactFilterKey(any_=[key]))
    )
    assert artifact.data == 100.0
    assert "500 tokens" in (artifact.description or "")
    until(lambda: "step 10, loss 2.5" in {log.message for log in client.read_logs()})


def _raise(error: BaseException) -> None:
    raise error


def test_tasks_of_jobs_that_never_ended_end_with_the_study(
    client: SyncPrefectClient, tmp_path: Path
) -> None:
    one = job(tmp_path / "a", "training", "train DR-2 seed 0")
    run = in_flow(lambda shown: shown.tell(Event(one, "started")))
    assert states(client, run, 1) == {one.name: "Failed"}
    assert client.read_flow_run(run).state_name == "Completed"


def test_a_run_that_is_cancelled_in_prefect_is_stopped_at_the_next_event(
    client: SyncPrefectClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dreamer_study.flows.prefect.tasks, "LOOK_SECONDS", 0.05)
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


def test_a_run_that_is_cancelled_while_data_are_prepared_begins_no_further_step(
    client: SyncPrefectClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dreamer_study.flows.prefect.tasks, "LOOK_SECONDS", 0.05)
    called: list[str] = []

    def script(shown: InPrefect) -> None:
        shown.call("data", "world", lambda: called.append("world"))
        client.set_flow_run_state(runtime.flow_run.id, Cancelling())
        until(lambda: shown._cancelled.is_set())
        with pytest.raises(Stopped):
            shown.call("data", "items", lambda: called.append("items"))

    in_flow(script)
    assert called == ["world"]


def refuse(*_: Any, **__: Any) -> None:
    raise httpx.ConnectError("All connection attempts failed")


@pytest.mark.parametrize("seen_by", ["the study", "the look for a cancellation"])
def test_a_lost_server_is_said_once_and_every_body_runs_once(
    client: SyncPrefectClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen_by: str
) -> None:
    said: list[str] = []
    monkeypatch.setattr(dreamer_study.flows.prefect.tasks, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(dreamer_study.flows.prefect.tasks.reports, "write_line", said.append)
    one, called, done = job(tmp_path / "a", "training", "train LA-2 seed 0"), [], []

    def body(name: str) -> str:
        if name == "amid":
            methods = [
                part
                for part in dir(SyncPrefectClient)
                if part.startswith(("read_", "create_", "update_", "set_"))
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
        # the study need not ask the server for anything before its end
        until(lambda: shown._lost.is_set())
        done.append(True)

    with suppress(httpx.ConnectError):  # the end of the flow run, of which no server hears
        in_flow(script)
    assert called == ["before", "amid", "after"]
    assert done == [True]
    assert ["is lost" in line for line in said] == [True]
