"""`dreamer list`: list studies with their state and answer; reads only."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from dreamer_study.flows.commands.documents import print_document
from dreamer_study.flows.commands.states import overall, read_states
from dreamer_study.flows.commands.tables import console, print_table
from dreamer_study.flows.plan.study_plan import Plan
from dreamer_study.flows.progress.reports import write_line
from dreamer_study.flows.progress.study_lock import runs_elsewhere
from dreamer_study.flows.study.loading import NAMED, PUBLISHED, load_study, presets
from dreamer_study.pipeline.errors import InputError
from dreamer_study.reports.text.numbers import interval
from dreamer_study.reports.text.ratios import leading, short_ratio
from dreamer_study.sql.results import query

ROOT = "runs"  # the folder of the folders of studies, unless others are named
RESULTS = "results.duckdb"
MARKS = (NAMED, "study.yaml", RESULTS)  # in a folder that is a study's
UNKNOWN = "unknown"


@dataclass(frozen=True)
class Listed:
    """A study's folder: its study, the state of the study, and the ratios that are its answer."""

    folder: Path
    study: str | None
    state: str
    answer: str | None


def list_studies(options: argparse.Namespace) -> None:
    """Print a row for each study's folder below the given folders.

    Raises InputError for a folder that is not there.
    """
    studies = [_look(folder) for root in options.root or [ROOT] for folder in _folders(root)]
    if options.json:
        print_document(studies=studies, presets=presets())
        return
    if studies:
        print_table(pd.DataFrame([_row(study) for study in studies]))
    else:
        console.print(f"no studies in {', '.join(options.root or [ROOT])}")
    console.print(
        f"\npresets: {', '.join(presets())}; `dreamer run demo` runs one, `dreamer new --from demo"
        " my.yaml` copies one for you to edit"
    )


def _folders(root: str) -> list[Path]:
    """List the folders of studies in a folder; the default one need not be there."""
    parent = Path(root)
    if not parent.is_dir():
        if root == ROOT:
            return []
        raise InputError(f"--root {root}: there is no such folder")
    folders = sorted(path for path in parent.iterdir() if path.is_dir())
    return [folder for folder in folders if any((folder / mark).exists() for mark in MARKS)]


def _look(folder: Path) -> Listed:
    """Read the state and the answer of a study; a line says what cannot be read."""
    # of its whole path, as a preset may have the folder's name
    whole = folder.resolve()
    study_id: str | None = None
    state = UNKNOWN
    try:
        if (folder / PUBLISHED).is_file():
            state = "published"
        else:
            study = load_study(whole)
            study_id = study.study_id
            state = overall(read_states(Plan(study)), runs=bool(runs_elsewhere(study)))
    except InputError as error:
        write_line(f"{folder}: {error}")
    answer = None
    try:
        if (folder / RESULTS).exists():
            study_id, answer = _answer(folder / RESULTS, study_id)
    except InputError as error:
        write_line(f"{folder}: {error}")
    return Listed(folder, study_id, state, answer)


def _answer(database: Path, wanted: str | None) -> tuple[str | None, str | None]:
    """Return the id and the answer of a study of a results file, the newest where none is named.

    The answer is the ratio of each variant with its interval, None where there is none. Variants
    that other studies have trained are left out, unless the study has trained nothing but its
    baseline.
    """
    newest_first = "select study_id from studies order by created_at desc nulls last, study_id"
    studies = list(query(database, newest_first)["study_id"])
    if wanted is None and studies:
        wanted = studies[0]
    ratios = query(
        database, "from token_ratios where study_id = $study order by depth", {"study": wanted}
    )
    rows = leading(ratios)
    origins = query(
        database, "select variant from origins where study_id = $study", {"study": wanted}
    )
    own = rows[~rows["variant"].isin(origins["variant"])]
    if len(own):
        rows = own
    several_depths = rows["depth"].nunique() > 1
    said = []
    for row in rows.to_dict("records"):
        name = row["variant"]
        if several_depths:
            name += f"-{row['depth']}"
        between = interval(row) if pd.notna(row["ratio"]) else ""
        said.append(f"{name} {short_ratio(row)}" + (f" ({between})" if between else ""))
    return wanted, ", ".join(said) or None


def _row(study: Listed) -> dict[str, str]:
    return {
        "folder": str(study.folder),
        "state": study.state,
        "answer (training tokens over the baseline's)": study.answer or "-",
    }
