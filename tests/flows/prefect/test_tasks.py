"""What Prefect's server knows of a study: states, tries, logs, edges, pauses, lost runs.

All fast tests that need a server are in this file: each process of the tests that needs one starts
its own, which takes ten seconds of CPU time.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from prefect import flow, runtime
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import (
    ArtifactFilter,
    ArtifactFilterKey,
    FlowRunFilter,
    FlowRunFilterId,
    LogFilter,
    LogFilterTaskRunId,
)
from prefect.client.schemas.objects import TaskRun
from prefect.exceptions import Pause
from prefect.states import Cancelling, Pending, Running, Suspended
from prefect.states import Failed as FailedState
from prefect.states import Paused as PausedState

from dreamer_study.flows.jobs import Failed, Job, Stopped, Work
from dreamer_study.flows.prefect import run_states, tasks
from dreamer_study.flows.prefect.artifacts import artifact_key
from dreamer_study.flows.prefect.lost_runs import end_lost_runs
from dreamer_study.flows.prefect.tasks import PrefectSteps
from dreamer_study.flows.progress.study_lock import only_run
from dreamer_study.flows.study.loading import load_study
from dreamer_study.pipeline.errors import BrokenDownload, InputError
from tests.flows.by_hand import tiny
from tests.flows.small_study import TINY, small_study
from tests.waiting import until

pytestmark = pytest.mark.slow

STUDY = load_study(TINY)


def in_flow(script: Callable[[PrefectSteps], Any]) -> str:
    """Call a script with the steps of a flow run; returns the id of the run, however it ends.

    Raises what the script raises: a flow would keep that to itself.
    """
    runs: list[str] = []
    errors: list[BaseException] = []

    @flow(name="full-study", flow_run_name="tiny", persist_result=False)
    def shows() -> None:
        runs.append(str(runtime.flow_run.id))
        steps = PrefectSteps(STUDY)
        try:
            script(steps)
        except BaseException as error:
            errors.append(error)
        finally:
            steps.close()

    # The end of a run is refused where the run is suspended, and lost with its server.
    with suppress(Pause, httpx.ConnectError):
        shows(return_state=True)
    if errors:
        raise errors[0]
    return runs[0]


def task_runs(client: SyncPrefectClient, run: str, expected: int) -> dict[str, TaskRun]:
    """The ended tasks of a flow run, by name; the server hears of them a moment later."""
    ended: dict[str, TaskRun] = {}

    def all_ended() -> bool:
        filters = FlowRunFilter(id=FlowRunFilterId(any_=[run]))
        for task in client.read_task_runs(flow_run_filter=filters):
            if task.state and task.state.is_final():
                ended[task.name] = task
        return len(ended) == expected

    until(all_ended)
    return ended


def messages(client: SyncPrefectClient, task: TaskRun) -> list[str]:
    wanted = LogFilter(task_run_id=LogFilterTaskRunId(any_=[task.id]))
    return [log.message for log in client.read_logs(wanted)]


def job(folder: Path, kind: str, name: str, **options: Any) -> Job:
    folder.mkdir(exist_ok=True)
    program = "dreamer_study.model.train"
    return Job(kind, name, program, (), folder, folder / "log.txt", goal=1000, **options)  # type: ignore[arg-type]


def fails(error: BaseException) -> Callable[..., Any]:
    def work(*_: Any) -> None:
        raise error

    return work


def test_each_kind_of_step_is_a_task_of_its_own(client: SyncPrefectClient) -> None:
    def script(steps: PrefectSteps) -> None:
        for kind in tasks.TASKS:
            assert steps.call(kind, f"a {kind}", lambda kind=kind: f"made {kind}") == f"made {kind}"  # type: ignore[arg-type]

    runs = task_runs(client, in_flow(script), 7)
    keys = {name: task.task_key.rpartition("-")[0] for name, task in runs.items()}
    assert keys == {f"a {kind}": kind for kind in tasks.TASKS}
    assert {task.state_name for task in runs.values()} == {"Completed"}


def test_a_task_begins_and_ends_without_a_request(
    client: SyncPrefectClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests: list[str] = []

    def script(steps: PrefectSteps) -> None:
        send = httpx.Client.send

        def noted(self: httpx.Client, request: httpx.Request, **options: Any) -> httpx.Response:
            requests.append(str(request.url))
            return send(self, request, **options)

        monkeypatch.setattr(httpx.Client, "send", noted)
        steps.call("data", "world", lambda: 1, makes="world/1")
        steps.call("data", "clean", lambda: 2, made_of=("world/1",), done=True)
        with pytest.raises(Stopped):
            steps.call("training", "train", fails(Stopped("train")))
        monkeypatch.setattr(httpx.Client, "send", send)

    task_runs(client, in_flow(script), 3)
    assert [url for url in requests if "/artifacts" not in url and "/logs" not in url] == []


def test_a_step_names_the_finished_steps_that_it_is_made_of(client: SyncPrefectClient) -> None:
    def script(steps: PrefectSteps) -> None:
        steps.call("data", "tokens", lambda: {"tokens": 1}, makes="tokens/1")
        steps.call("data", "items", lambda: None, makes="items/1", done=True)
        made_of = ("tokens/1", "items/1", "of no step")
        thread = Thread(
            target=lambda: steps.call("evaluation", "evaluate", lambda: None, made_of=made_of)
        )
        thread.start()
        thread.join()
        steps.call("statistics", "statistics", lambda: None, made_of=("evaluate",))

    runs = task_runs(client, in_flow(script), 4)
    inputs = {
        name: {edge.id for edge in task.task_inputs["made_of"]} for name, task in runs.items()
    }
    assert inputs["tokens"] == set()
    assert inputs["evaluate"] == {runs["tokens"].id, runs["items"].id}
    assert inputs["statistics"] == {runs["evaluate"].id}


def test_states_say_cached_failed_and_cancelled(client: SyncPrefectClient) -> None:
    def script(steps: PrefectSteps) -> None:
        assert steps.call("data", "held by the store", lambda: 42, done=True) == 42
        with pytest.raises(InputError, match="no such item"):
            steps.call("match", "bad input", fails(InputError("no such item")))
        with pytest.raises(Stopped, match="train DR-2"):
            steps.call("training", "stopped", fails(Stopped("train DR-2")))

    runs = task_runs(client, in_flow(script), 3)
    assert {name: task.state_name for name, task in runs.items()} == {
        "held by the store": "Cached",
        "bad input": "Failed",
        "stopped": "Cancelled",
    }


@pytest.mark.parametrize(
    ("kind", "error", "tries"),
    [
        ("training", Failed("killed by signal 9", may_pass=True), 2),
        ("evaluation", Failed("ended with status 1", may_pass=True), 2),
        ("training", Failed("the disk is full"), 1),
        ("training", InputError("no run"), 1),
        ("data", Failed("killed by signal 9", may_pass=True), 1),
        ("download", BrokenDownload("it broke off"), 4),
        ("download", InputError("the hub does not answer"), 1),
    ],
)
def test_what_may_pass_is_tried_again_and_the_run_count_shows_it(
    client: SyncPrefectClient,
    monkeypatch: pytest.MonkeyPatch,
    kind: Any,
    error: Exception,
    tries: int,
) -> None:
    monkeypatch.setattr("dreamer_study.flows.jobs.retries.DOWNLOAD_DELAYS", (0.0, 0.0, 0.0))
    tried: list[int] = []

    def work() -> None:
        tried.append(1)
        raise error

    def script(steps: PrefectSteps) -> None:
        with pytest.raises(type(error)):
            steps.call(kind, "step", work)

    run = task_runs(client, in_flow(script), 1)["step"]
    assert (len(tried), run.run_count, run.state_name) == (tries, tries, "Failed")


def test_a_second_try_that_ends_well_is_completed(client: SyncPrefectClient) -> None:
    tried: list[int] = []

    def work() -> str:
        tried.append(1)
        if len(tried) == 1:
            raise Failed("killed by signal 9", may_pass=True)
        return "trained"

    def script(steps: PrefectSteps) -> None:
        assert steps.call("training", "train", work) == "trained"

    run = task_runs(client, in_flow(script), 1)["train"]
    assert (run.run_count, run.state_name) == (2, "Completed")


def test_lines_of_a_job_are_in_the_log_of_its_task_once(
    client: SyncPrefectClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "TELL_SECONDS", 0.0)
    one = job(tmp_path / "a", "training", "train LA-2 seed 0")
    other = job(tmp_path / "b", "evaluation", "evaluate LA-2 at 100 tokens")
    one.log.write_text("of an earlier attempt\n")
    progress = {"tokens": 500, "tokens_per_second": 10}

    def train(tick: Callable[[], None]) -> None:
        (one.folder / "progress.json").write_text(json.dumps(progress))
        with one.log.open("a") as log:
            log.write("step 10, loss 2.5\nnot a whole l")
            log.flush()
            tick()
            log.write("ine\n")
        tick()

    def evaluate(tick: Callable[[], None]) -> None:
        other.log.write_text("12 requests\n")
        tick()

    def script(steps: PrefectSteps) -> None:
        steps.do_job(one, train)
        steps.do_job(other, evaluate)
        steps.log("a line of the flow run")

    runs = task_runs(client, in_flow(script), 2)
    until(lambda: "not a whole line" in messages(client, runs[one.name]))
    lines = messages(client, runs[one.name])
    assert lines.count("step 10, loss 2.5") == 1
    assert "of an earlier attempt" not in lines
    assert any("500 tokens" in line for line in lines)
    until(lambda: "12 requests" in messages(client, runs[other.name]))
    key = artifact_key("tiny", one.name)
    wanted = ArtifactFilter(key=ArtifactFilterKey(any_=[key]))
    (artifact,) = client.read_artifacts(artifact_filter=wanted)
    assert artifact.data == 100.0
    assert "500 tokens" in (artifact.description or "")
    until(lambda: "a line of the flow run" in {log.message for log in client.read_logs()})


@flow
def any_flow(study: str, root: str) -> None: ...


def test_a_lost_run_is_crashed_and_one_whose_study_continues_runs(
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


class JobsOnHold:
    """Keeps what steps ask of jobs."""

    def __init__(self) -> None:
        self.do: Callable[[Job, Work], None] = lambda job, work: None
        self.asked: list[str] = []

    def pause(self) -> None:
        self.asked.append("pause")

    def resume(self) -> None:
        self.asked.append("resume")

    def interrupt(self, error: BaseException) -> None:
        self.asked.append(str(error))


@pytest.fixture
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_states, "LOOK_SECONDS", 0.05)


@pytest.mark.usefixtures("looks_often")
def test_a_pause_reaches_jobs_and_holds_the_next_step(client: SyncPrefectClient) -> None:
    jobs = JobsOnHold()
    called: list[str] = []

    def script(steps: PrefectSteps) -> None:
        run = runtime.flow_run.id
        with steps.control(jobs):  # type: ignore[arg-type]
            client.set_flow_run_state(run, PausedState(timeout_seconds=300), force=True)
            until(lambda: jobs.asked == ["pause"])
            after = Thread(target=lambda: steps.call("data", "after", lambda: called.append("x")))
            after.start()
            after.join(0.5)
            assert not called
            client.set_flow_run_state(run, Running(), force=True)
            after.join()
        assert jobs.asked == ["pause", "resume"]

    in_flow(script)
    assert called == ["x"]


@pytest.mark.usefixtures("looks_often")
@pytest.mark.parametrize(
    ("state", "words"),
    [
        (Cancelling(), "the run was cancelled in Prefect"),
        (FailedState(message="The flow was paused and never resumed."), "never resumed"),
    ],
)
def test_a_run_that_prefect_ends_stops_its_jobs_and_begins_no_further_step(
    client: SyncPrefectClient, state: Any, words: str
) -> None:
    jobs = JobsOnHold()
    called: list[str] = []

    def script(steps: PrefectSteps) -> None:
        with steps.control(jobs):  # type: ignore[arg-type]
            client.set_flow_run_state(runtime.flow_run.id, state, force=True)
            until(lambda: bool(jobs.asked))
        with pytest.raises(Stopped, match=words):
            steps.call("data", "items", lambda: called.append("items"))

    in_flow(script)
    assert words in jobs.asked[0]
    assert called == []


@pytest.mark.usefixtures("looks_often")
def test_a_run_that_is_suspended_ends_for_prefect_to_start_it_again(
    client: SyncPrefectClient,
) -> None:
    jobs = JobsOnHold()

    def script(steps: PrefectSteps) -> None:
        run = runtime.flow_run.id
        with steps.control(jobs):  # type: ignore[arg-type]
            client.set_flow_run_state(run, Suspended(timeout_seconds=300), force=True)
            until(lambda: bool(jobs.asked))
        with pytest.raises(Pause):
            steps.call("data", "items", lambda: pytest.fail("no step may begin"))

    in_flow(script)
    assert "pause" not in jobs.asked


@pytest.mark.parametrize("signalled", [KeyboardInterrupt, SystemExit])
def test_a_signal_in_prefects_engine_ends_the_study(
    client: SyncPrefectClient, monkeypatch: pytest.MonkeyPatch, signalled: type[BaseException]
) -> None:
    called: list[int] = []

    def step(*_: Any, **__: Any) -> None:
        raise signalled

    def script(steps: PrefectSteps) -> None:
        with monkeypatch.context() as patch:
            patch.setitem(tasks.TASKS, "data", SimpleNamespace(with_options=lambda **_: step))
            with pytest.raises(signalled):
                steps.call("data", "world", lambda: called.append(1))

    in_flow(script)
    assert called == []


def refuse(*_: Any, **__: Any) -> None:
    raise httpx.ConnectError("All connection attempts failed")


@pytest.fixture
def unreachable(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """A function after which no request of Prefect's client is answered."""

    def lose() -> None:
        names = (name for name in dir(SyncPrefectClient) if not name.startswith("_"))
        for name in names:
            if name.startswith(("read_", "create_", "update_", "set_")):
                monkeypatch.setattr(SyncPrefectClient, name, refuse)

    return lose


@pytest.mark.usefixtures("looks_often")
@pytest.mark.parametrize("paused", [False, True])
def test_a_lost_server_is_said_once_and_every_step_is_done_once(
    client: SyncPrefectClient,
    monkeypatch: pytest.MonkeyPatch,
    unreachable: Callable[[], None],
    paused: bool,
) -> None:
    said: list[str] = []
    monkeypatch.setattr(run_states, "write_line", said.append)
    jobs = JobsOnHold()
    called: list[str] = []

    def work(name: str) -> str:
        called.append(name)
        return name

    def script(steps: PrefectSteps) -> None:
        assert steps.call("data", "before", lambda: work("before")) == "before"
        with steps.control(jobs):  # type: ignore[arg-type]
            if paused:
                client.set_flow_run_state(runtime.flow_run.id, PausedState(), force=True)
                until(lambda: bool(jobs.asked))
            unreachable()
            until(lambda: any("is lost" in line for line in said))
            until(lambda: not paused or "resume" in jobs.asked)
        assert steps.call("match", "after", lambda: work("after")) == "after"
        with pytest.raises(InputError, match="no such item"):
            steps.call("statistics", "fails", fails(InputError("no such item")))

    in_flow(script)
    assert called == ["before", "after"]
    assert ["is lost" in line for line in said].count(True) == 1
    assert jobs.asked == (["pause", "resume"] if paused else [])


def test_a_step_that_no_task_of_prefects_can_do_is_done_all_the_same(
    client: SyncPrefectClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def script(steps: PrefectSteps) -> None:
        broken = tasks.TASKS["data"].with_options(task_run_name="{no such parameter}")
        monkeypatch.setitem(tasks.TASKS, "data", broken)
        assert steps.call("data", "world", lambda: 42) == 42

    in_flow(script)


def test_a_study_whose_retries_are_none_tries_once(tmp_path: Path) -> None:
    assert tiny(tmp_path, compute={"retries": 0}).compute.retries == 0
