"""Follow the state of the flow run in Prefect: a pause, its end, a cancellation, a lost server.

A run of `dreamer run` has no runner that would stop it, and no engine of Prefect's stops the
processes of a study at a pause. So a thread looks at the state of the run every few seconds.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import Context

from prefect import get_client, runtime
from prefect.client.schemas.objects import State, StateType
from prefect.exceptions import Pause

from dreamer_study.flows.jobs import Jobs, Stopped
from dreamer_study.flows.progress.reports import write_line
from dreamer_study.flows.study.configuration import Study

LOOK_SECONDS = 5.0  # between two looks at the state of the run
ANSWER_SECONDS = 5.0  # for the answer to a look: a server that hangs is found by the next one
CANCELLED = (StateType.CANCELLING, StateType.CANCELLED)
ENDED = (StateType.FAILED, StateType.CRASHED)


class RunStates:
    """What Prefect says of the flow run that is under way in `context`.

    Only the thread that looks pauses and resumes jobs, also where the server is lost in a pause.
    """

    def __init__(self, study: Study, context: Context) -> None:
        self._study = study
        self._jobs: Jobs | None = None
        self._stop: BaseException | None = None  # why no further step may begin
        self._changing = threading.RLock()  # held while jobs are paused, resumed or taken over
        self._lost = threading.Event()
        self._closed = threading.Event()
        self._may_run = threading.Event()  # not set while the run is paused
        self._may_run.set()
        run = context.run(lambda: runtime.flow_run.id)
        if run:
            look = threading.Thread(target=context.copy().run, args=(self._look, run), daemon=True)
            look.start()

    @property
    def lost(self) -> bool:
        """Whether Prefect's server is lost."""
        return self._lost.is_set()

    def heed(self) -> None:
        """Wait while the run is paused. Raises Stopped where it was cancelled."""
        self._may_run.wait()
        if self._stop:
            raise self._stop

    @contextmanager
    def control(self, jobs: Jobs) -> Iterator[None]:
        """Let a pause and a cancellation reach these jobs during the block."""
        with self._changing:
            self._jobs = jobs
            if not self._may_run.is_set():
                jobs.pause()
            if self._stop:
                jobs.interrupt(self._stop)
        try:
            yield
        finally:
            with self._changing:
                self._jobs = None

    def note_loss(self, error: BaseException) -> None:
        """Call Prefect's server lost from now on, and say so the first time."""
        if self._lost.is_set():
            return
        self._lost.set()
        reason = " ".join(str(error).split()) or type(error).__name__
        resumed = "" if self._may_run.is_set() else "; it was paused and is resumed"
        write_line(
            f"Prefect's server is lost ({reason}); the study continues without showing itself"
            f" there{resumed}"
        )

    def close(self) -> None:
        """End the look for states, and let no thread wait for the end of a pause."""
        self._closed.set()
        self._stop = self._stop or Stopped("the study has ended")
        self._may_run.set()

    def _look(self, run: str) -> None:
        try:
            self._tag(run)
            while not self._closed.wait(LOOK_SECONDS) and not self.lost and not self._stop:
                state = self._state(run)
                if state:
                    self._follow(state)
            if self.lost:
                self._resume()
        except BaseException as error:  # of pausing or resuming jobs: nobody would wake them
            self._end(error)

    def _state(self, run: str) -> State | None:
        """Ask for the state of the run; None where the server is lost."""
        settings = {"timeout": ANSWER_SECONDS}
        try:
            with get_client(httpx_settings=settings, sync_client=True) as client:
                return client.read_flow_run(run).state
        except Exception as error:  # any error of the client or its transport
            self.note_loss(error)
            return None

    def _follow(self, state: State) -> None:
        """Do what the state of the run asks for."""
        if state.type in CANCELLED:
            self._end(Stopped("the run was cancelled in Prefect"))
        elif state.type in ENDED:  # as Prefect does when the time of a pause is over
            self._end(Stopped(f"Prefect ended the run: {state.message or state.name}"))
        elif state.type == StateType.PAUSED and state.name == "Suspended":
            # What Prefect's pages call Pause: the process ends, and a resume starts another one.
            self._end(Pause(state=state))
        elif state.type == StateType.PAUSED:
            self._pause()
        else:
            self._resume()

    def _end(self, error: BaseException) -> None:
        with self._changing:
            self._stop = error
            if self._jobs:
                self._jobs.interrupt(error)
            self._may_run.set()

    def _pause(self) -> None:
        with self._changing:
            if not self._may_run.is_set():
                return
            name = self._study.name
            write_line(f"{name}: paused in Prefect; trainings end at their newest states")
            self._may_run.clear()
            if self._jobs:
                self._jobs.pause()

    def _resume(self) -> None:
        with self._changing:
            if self._may_run.is_set():
                return
            if not self.lost:
                write_line(f"{self._study.name}: resumed in Prefect")
            self._may_run.set()
            if self._jobs:
                self._jobs.resume()

    def _tag(self, run: str) -> None:
        """Tag the run with the name of its study, which its parameters alone do not say."""
        try:
            with get_client(sync_client=True) as client:
                client.update_flow_run(run, tags={*runtime.flow_run.tags, self._study.name})
        except Exception as error:  # as in `_state`
            self.note_loss(error)
