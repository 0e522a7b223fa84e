"""Keep the newest progress of every stage of a study in a file, for `dreamer status`.

The file `.progress.json` in the study's folder, which other machines may read too:

    {"study_id": "demo-a8a2fec4", "keys": {"train LA seed 0": {"fraction": 0.31,
     "words": "loss 1.204, 23,013 tokens/s, ...", "since": 1764321000.2, "at": 1764321011.9}}}
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from dreamer_study.flows.progress import reports
from dreamer_study.flows.progress.reports import read_progress
from dreamer_study.flows.study.configuration import Study
from dreamer_study.flows.study.loading import note_name
from dreamer_study.pipeline.storage.files import write_text_atomically

FILE = ".progress.json"
EVERY_SECONDS = 1.0


@dataclass(frozen=True)
class Reported:
    """The newest report of one key, with the times of its first and its newest report."""

    fraction: float
    words: str
    since: float
    at: float


class _Recorder:
    """Writes every report to a file, at most once a second while nothing begins or ends."""

    def __init__(self, path: Path, study_id: str) -> None:
        self.path = path
        self.study_id = study_id
        self.keys: dict[str, Reported] = {}
        self.written = 0.0

    def update(self, key: str, fraction: float, words: str) -> None:
        now = time.time()
        begins = key not in self.keys
        since = now if begins else self.keys[key].since
        self.keys[key] = Reported(fraction, words, since, now)
        if begins or fraction >= 1 or now - self.written >= EVERY_SECONDS:
            self.write()
            self.written = now

    def write(self) -> None:
        """Write the file, if the disk takes it: no work depends on this file."""
        values = {
            "study_id": self.study_id,
            "keys": {key: asdict(value) for key, value in self.keys.items()},
        }
        with suppress(OSError):
            write_text_atomically(self.path, json.dumps(values), durable=False)


@contextmanager
def recorded(study: Study) -> Iterator[None]:
    """Record what is reported during the block in the study's folder."""
    study.folder.mkdir(parents=True, exist_ok=True)
    note_name(study)
    recorder = _Recorder(study.folder / FILE, study.study_id)
    try:
        with reports.listening(recorder):
            yield
    finally:
        recorder.write()


def read_record(study: Study) -> dict[str, Reported]:
    """Read the newest reports of exactly this study, by key; none where the study has not run.

    A damaged file tells nothing: its next version comes with the next report.
    """
    values: dict[str, Any] = read_progress(study.folder / FILE)
    if values.get("study_id") != study.study_id:
        return {}
    try:
        return TypeAdapter(dict[str, Reported]).validate_python(values.get("keys"))
    except ValidationError:
        return {}
