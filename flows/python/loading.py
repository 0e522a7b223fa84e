"""Load a study in Python, in whatever form it is given."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dreamer_study.flows.study.configuration import Study
from dreamer_study.flows.study.loading import load_study

StudyLike = Study | str | Path | Mapping[str, Any]


def load(
    study: StudyLike, *, root: Path | str | None = None, mirror: Path | str | None = None
) -> Study:
    """Return a study, with every default filled in and every value checked.

    Args:
        study: the name of a preset ("demo"), the path of a study file, a mapping of the keys of a
            study file, or a `Study`
        root: the folder that the study writes to, in place of the study's own value
        mirror: a folder of data sets in the hub's layout, in place of the study's own value

    Equal values are an equal study, however they were given: `study_id` and all that is stored
    under it are the same. Raises InputError for a name or a file that is not there, for an unknown
    key, and for a wrong value.
    """
    if not isinstance(study, Study):
        return load_study(study, root=root, mirror=mirror)
    changes: dict[str, Any] = {}
    if root is not None:
        changes["root"] = Path(root).expanduser()
    if mirror is not None:
        changes["data"] = study.data.model_copy(update={"mirror": Path(mirror).expanduser()})
    return study.model_copy(update=changes) if changes else study
