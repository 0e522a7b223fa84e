"""Load a study in Python from a name, a file, a mapping or a `Study`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dreamer_study.flows.study.configuration import Study
from dreamer_study.flows.study.loading import load_study
from dreamer_study.pipeline.storage.files import from_home

StudyLike = Study | str | Path | Mapping[str, Any]


def load(
    study: StudyLike, *, root: Path | str | None = None, mirror: Path | str | None = None
) -> Study:
    """Return a study with every default filled in and every value checked.

    Args:
        study: the name of a preset ("demo"), the path of a study file, a mapping with the keys of
            a study file, or a `Study`
        root: the folder that the study writes to; replaces the study's own value
        mirror: a folder of data sets in the layout of the Hugging Face hub; replaces the study's
            own value

    Equal values make an equal study, whichever form you give: the `study_id`, and everything stored
    under it, are the same.

    Raises InputError for an unknown name, a missing file, an unknown key and a wrong value.
    """
    if not isinstance(study, Study):
        return load_study(study, root=root, mirror=mirror)
    changes: dict[str, Any] = {}
    if root is not None:
        changes["root"] = from_home(Path(root))
    if mirror is not None:
        changes["data"] = study.data.model_copy(update={"mirror": from_home(Path(mirror))})
    return study.model_copy(update=changes) if changes else study
