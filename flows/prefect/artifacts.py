"""Artifacts of a study in Prefect's pages: how far each training is, the results, the report.

Artifacts are requests to Prefect's server, which may hang: one thread sends them, and no step waits
for it.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from contextvars import Context
from queue import SimpleQueue
from uuid import UUID

from prefect.artifacts import (
    create_markdown_artifact,
    create_progress_artifact,
    update_progress_artifact,
)

from dreamer_study.flows.jobs import Job
from dreamer_study.flows.prefect.report_links import report_text
from dreamer_study.flows.study.configuration import Study
from dreamer_study.reports.data import StudyData
from dreamer_study.reports.page.summary import summary

CLOSE_SECONDS = 5.0  # for what is left to be sent when the study has ended


class Artifacts:
    """Send the artifacts of a flow run, until the server is lost; `lost` is told why."""

    def __init__(self, study: Study, context: Context, lost: Callable[[Exception], None]) -> None:
        self._study = study
        self._lost = lost
        self._queue: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._ids: dict[Job, UUID] = {}
        self._ended = threading.Event()  # with the server
        self._thread = threading.Thread(target=context.copy().run, args=(self._send,), daemon=True)
        self._thread.start()

    def progress(self, job: Job, percent: float, description: str) -> None:
        """Show how far a training is."""
        if self._ended.is_set():
            return

        def send() -> None:
            if job not in self._ids:
                key = artifact_key(self._study.name, job.name)
                self._ids[job] = create_progress_artifact(0.0, key, job.name)
            update_progress_artifact(self._ids[job], progress=percent, description=description)

        self._queue.put(send)

    def results(self, data: StudyData) -> None:
        """Show the answer with the ratios and the curves, and where the report is."""
        if self._ended.is_set():
            return
        study = self._study
        text = summary(data)
        place = report_text(study)

        def send() -> None:
            key = artifact_key(study.name, "summary")
            create_markdown_artifact(text, key, f"What {study.study_id} says")
            create_markdown_artifact(place, artifact_key(study.name, "report"), "The report")

        self._queue.put(send)

    def close(self) -> None:
        """Wait until everything is sent, but no longer than a server that answers needs."""
        self._queue.put(None)
        deadline = time.monotonic() + CLOSE_SECONDS
        self._thread.join(max(0.0, deadline - time.monotonic()))
        if self._thread.is_alive():
            self._lost(TimeoutError("it does not answer"))

    def _send(self) -> None:
        while True:
            send = self._queue.get()
            if send is None:
                return
            try:
                send()
            except Exception as error:  # any error of the client or its transport
                self._ended.set()
                self._lost(error)
                return


def artifact_key(*words: str) -> str:
    """Make a key that Prefect accepts (a to z, digits, dashes) of the names of studies and jobs.

    Example: `artifact_key("mini", "train DR+DA seed 0")` gives `mini-train-dr-plus-da-seed-0`.
    """
    return re.sub("[^a-z0-9]+", "-", " ".join(words).lower().replace("+", " plus "))
