"""Which outputs in the store are a study's: written down as its stages finish.

Finding them again from the study alone would take all its sources at hand, and reading them from end to end; to look
at what curation dropped, or at the packed tokens, this list is enough.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from flows.study.configuration import Study
from pipeline.errors import InputError
from pipeline.storage.files import write_text_atomically
from pipeline.storage.store import Output, Store

RECORD = "stages.json"


def remember(study: Study, outputs: Sequence[Output]) -> None:
    """Write down the finished outputs, in order, in place of those of an earlier run."""
    study.folder.mkdir(parents=True, exist_ok=True)
    said = {"study_id": study.study_id, "outputs": [f"{output.stage}/{output.key}" for output in outputs]}
    write_text_atomically(study.folder / RECORD, json.dumps(said, indent=1))


def recall(study: Study) -> tuple[str, list[Output]]:
    """The id of the study whose data these are (its settings may have changed since), and its finished outputs.

    Raises InputError when no stage has finished yet, or the outputs have been removed.
    """
    try:
        said = json.loads((study.folder / RECORD).read_text())
    except FileNotFoundError:
        raise InputError(f"{study.folder}: no data yet; `dreamer run {study.words}` prepares them") from None
    store = Store(study.store_folder)
    found = [output for name in said["outputs"] if (output := store.find(*name.split("/")))]
    if not found:
        raise InputError(f"{study.store_folder}: the data are gone; `dreamer run {study.words}` prepares them again")
    return said["study_id"], found


def find_output(study: Study, outputs: Sequence[Output], stage: str) -> Output:
    """The output of one stage. Raises InputError when it has not finished."""
    found = next((output for output in outputs if output.stage == stage), None)
    if found is None:
        raise InputError(f"{study.folder}: the stage {stage!r} has not finished; `dreamer run {study.words}` goes on")
    return found
