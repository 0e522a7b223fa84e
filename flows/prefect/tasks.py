"""Show a running study in Prefect: every step and every job is a task by name, with its state,
progress and log lines.

No result depends on Prefect. The first request that its server does not answer marks the server as
lost: that is said once, and the study goes on without showing itself there.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from prefect import get_client, get_run_logger, runtime, task
from prefect.artifacts import (
    create_link_artifact,
    create_markdown_artifact,
    create_progress_artifact,
    update_progress_artifact,
)
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import StateType
from prefect.futures import PrefectFuture

from dreamer_study.flows.jobs import Event, Job, Stopped
from dreamer_study.flows.prefect.report_links import link_to_report
from dreamer_study.flows.progress import reports
from dreamer_study.flows.running.job_progress import training_words
from dreamer_study.flows.running.study import Shown
from dreamer_study.flows.study.configuration import Study
from dreamer_study.reports.data import StudyData
from dreamer_study.reports.page.summary import summary

TELL_SECONDS = 5.0  # between two updates of a progress artifact
LOOK_SECONDS = 5.0  # between two looks whether the run was cancelled
# for the answer to a look, twice: so a server that hangs is found before longer requests end
ANSWER_SECONDS = 5.0
# for the results to be sent, and for the tasks of jobs to end, when the study has
CLOSE_SECONDS = 5.0


def _shown(name: str, ends: Callable[[], None]) -> None:
    """Show a step or a job of a study until it has ended; raises what it has failed by."""
    ends()


TASKS = {
    kind: task(
        _shown, name=kind, task_run_name="{name}", cache_policy=NO_CACHE, persist_result=False
    )
    for kind in ("download", "data", "match", "training", "evaluation", "statistics", "report")
}


class InPrefect(Shown):
    """Show a study as the tasks of the flow run that goes on."""

    def __init__(self, study: Study) -> None:
        self._study = study
        self._context = copy_context()  # that of the flow run, for threads
        self._boxes: dict[Job, SimpleQueue[Event | None]] = {}
        self._futures: list[PrefectFuture[Any]] = []
        self._lost = threading.Event()
        self._cancelled = threading.Event()
        self._closed = threading.Event()
        if run := runtime.flow_run.id:
            self._attempt(_tag, run, study.name)
            # which knows the server
            look = partial(self._context.copy().run, self._look_for_cancellation, run)
            threading.Thread(target=look, daemon=True).start()

    def call(self, kind: str, name: str, body: Callable[[], Any]) -> Any:
        """Show a step of this process, and return what `body()` returns, whatever becomes of the
        server.

        Raises Stopped where the flow run was cancelled.
        """
        self._heed()
        ended: Future[None] = Future()
        self._attempt(self._submit, kind, name, ended.result)
        try:
            returned = body()
            ended.set_result(None)
        except BaseException as error:
            ended.set_exception(error)
            raise
        return returned

    def tell(self, event: Event) -> None:
        """Show what has happened to a job. Raises Stopped where the flow run was cancelled."""
        self._heed()
        job = event.job
        if event.kind == "started":
            self._boxes[job] = SimpleQueue()
            show = partial(self._show_job, job, self._boxes[job], _Tail(job.log))
            self._attempt(self._submit, job.kind, job.name, show)
        elif job in self._boxes:
            self._boxes[job].put(event)
            if event.ends:
                del self._boxes[job]

    def drawn(self, data: StudyData) -> None:
        """Show the results: the answer with the factors and the curves, and a link to the
        report."""
        study = self._study
        text, words, link = summary(data), f"What {study.study_id} says", link_to_report(study)

        def send() -> None:
            self._attempt(
                create_markdown_artifact, text, artifact_key(study.name, "summary"), words
            )
            self._attempt(
                create_link_artifact, link, "The report", artifact_key(study.name, "report")
            )

        sending = threading.Thread(target=self._context.copy().run, args=(send,), daemon=True)
        sending.start()
        sending.join(CLOSE_SECONDS)
        if sending.is_alive():
            self._note_loss(TimeoutError("it does not answer"))

    def close(self) -> None:
        """End the tasks of jobs that have not ended; wait for all tasks, but not for a server that
        is lost."""
        self._closed.set()
        for box in self._boxes.values():
            box.put(None)
        for future in self._futures:
            if not self._lost.is_set():
                self._attempt(future.wait, CLOSE_SECONDS)

    def _heed(self) -> None:
        if self._cancelled.is_set():
            raise Stopped("the run was cancelled in Prefect")

    def _submit(self, kind: str, name: str, ends: Callable[[], None]) -> None:
        self._futures.append(TASKS[kind].submit(name, ends))

    def _show_job(self, job: Job, box: SimpleQueue[Event | None], log: _Tail) -> None:
        """Pass on the log and the progress of a job until the job has ended; raises what the job
        has failed by."""
        logger = get_run_logger()
        shown: list[Any] = []
        told = 0.0
        if job.kind == "training":
            key = artifact_key(self._study.name, job.name)
            self._attempt(lambda: shown.append(create_progress_artifact(0.0, key, job.name)))
        while event := box.get():
            for line in log.lines():
                logger.info(line)
            if shown and (event.ends or time.monotonic() - told >= TELL_SECONDS):
                told = time.monotonic()
                fraction, words = training_words(job)
                if not event.ends:
                    logger.info(words)
                values = {
                    "progress": 100.0 if event.kind == "finished" else 100 * fraction,
                    "description": words,
                }
                self._attempt(update_progress_artifact, shown[0], **values)
            if event.error:
                raise event.error
            if event.ends:
                return
        raise Stopped(job.name)

    def _attempt(self, send: Callable[..., Any], *arguments: Any, **named: Any) -> None:
        """Send something to Prefect's server, unless the server is lost."""
        if self._lost.is_set():
            return
        try:
            send(*arguments, **named)
        except Exception as error:  # whatever the engine, the client and its transport may raise
            self._note_loss(error)

    def _note_loss(self, error: Exception) -> None:
        """Call Prefect's server lost from now on, and say so the first time."""
        if not self._lost.is_set():
            self._lost.set()
            reason = " ".join(str(error).split()) or type(error).__name__
            reports.write_line(
                f"Prefect's server is lost ({reason}); the study goes on without showing itself"
                " there"
            )

    def _look_for_cancellation(self, run: str) -> None:
        """Notice that the run was cancelled in Prefect: a run of `dreamer run` has no runner that
        would stop it."""
        while not self._closed.wait(LOOK_SECONDS) and not self._lost.is_set():
            try:
                with get_client(
                    httpx_settings={"timeout": ANSWER_SECONDS}, sync_client=True
                ) as client:
                    state = client.read_flow_run(run).state
            except Exception as error:  # as in `_attempt`
                self._note_loss(error)
                return
            if state and state.type in (StateType.CANCELLING, StateType.CANCELLED):
                self._cancelled.set()
                return


def artifact_key(*words: str) -> str:
    """Make a key that Prefect accepts (a to z, digits, dashes) of the names of studies and jobs.

    Example: `artifact_key("mini", "train DR+DA-4 seed 0")` gives `mini-train-dr-plus-da-4-seed-0`.
    """
    return re.sub("[^a-z0-9]+", "-", " ".join(words).lower().replace("+", " plus "))


def _tag(run: str, tag: str) -> None:
    """Tag a flow run, whose parameters alone do not name the study."""
    with get_client(sync_client=True) as client:
        client.update_flow_run(run, tags={*runtime.flow_run.tags, tag})


class _Tail:
    """Read what is appended to a file, line by line."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._place = path.stat().st_size if path.exists() else 0

    def lines(self) -> list[str]:
        """Return the whole lines that have come since the last call."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._place)
                text = file.read()
        except FileNotFoundError:  # not there yet, or removed with its folder
            return []
        whole = text[: text.rfind(b"\n") + 1]
        self._place += len(whole)
        return whole.decode(errors="replace").splitlines()
