"""Find the results file that a command's STUDY means."""

from __future__ import annotations

from pathlib import Path

from flows.study.loading import load_study
from pipeline.errors import InputError


def find_results(name: str, root: Path | None) -> tuple[Path, str | None]:
    """Find the results file of a study, or take a results file's own path; returns the study's id, if one is named.

    Raises InputError where the file does not exist.
    """
    if Path(name).suffix == ".duckdb":
        if not Path(name).exists():
            raise InputError(f"{name}: no such results file")
        return Path(name), None
    study = load_study(name, root=root)
    if not study.database.exists():
        raise InputError(f"{study.database}: no results yet; `dreamer run {study.arguments}` makes them")
    return study.database, study.study_id
