"""Find the results file that a command's STUDY means."""

from __future__ import annotations

from pathlib import Path

from flows.study.loading import load_study, presets
from pipeline.errors import InputError


def find_results(name: str, root: Path | None) -> tuple[Path, str | None]:
    """Find the results file of a study or a published folder, or take its own path.

    Returns the study's id too, if a study is named. Raises InputError where the file does not exist.
    """
    if Path(name).suffix == ".duckdb":
        if not Path(name).exists():
            raise InputError(f"{name}: no such results file")
        return Path(name), None
    if name not in presets() and (published := Path(name) / "results.duckdb").exists():
        return published, None
    study = load_study(name, root=root)
    if not study.database.exists():
        raise InputError(f"{study.database}: no results yet; `dreamer run {study.arguments}` makes them")
    return study.database, study.study_id
