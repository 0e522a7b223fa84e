"""`dreamer verify`: compare everything that a study has stored with its digests, and remove what is
damaged."""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Iterable
from contextlib import nullcontext
from pathlib import Path

import pandas as pd

from dreamer_study.flows.commands.tables import console, print_table
from dreamer_study.flows.plan.data_plan import VERSIONS
from dreamer_study.flows.plan.study_plan import Plan
from dreamer_study.flows.progress import reports
from dreamer_study.flows.progress.study_lock import only_run
from dreamer_study.flows.running.live_results import report_mark
from dreamer_study.flows.running.result_rows import outputs_of
from dreamer_study.flows.study.configuration import Study
from dreamer_study.flows.study.loading import load_study
from dreamer_study.model.checkpoints.checksums import damaged_files, damaged_state
from dreamer_study.model.training.step_log import read_record
from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.storage.files import PARTIAL
from dreamer_study.pipeline.storage.integrity import damage, read_sealed
from dreamer_study.sql.ledger import differing
from dreamer_study.sql.results import Damaged, read_all


def verify(options: argparse.Namespace) -> int:
    """Print what is damaged, and with `--repair` remove it; returns 1 where damage is left, else
    0."""
    study = load_study(options.study, root=options.root)
    if not study.store_folder.is_dir():
        raise InputError(f"{study.name}: not started; nothing in {study.store_folder}")
    with only_run(study) if options.repair else nullcontext(), reports.listening(reports.Lines()):
        outputs, damaged = find_damage(study.store_folder)
        broken = damaged_results(study.database)
        rows = [
            (output / name, words)
            for output, wrong in damaged.items()
            for name, words in wrong.items()
        ]
        rows += [(study.database, broken)] if broken else []
        differ = [] if rows else _wrong_rows(study)
        wrong = rows or [
            (study.database, f"rows of {name} are missing or changed") for name in differ
        ]
        if not wrong:
            console.print(f"{study.name}: {outputs} outputs and the results are whole")
            return 0
        print_table(pd.DataFrame(wrong, columns=["file", "damage"]))
        if rows and options.repair:
            repair(study, damaged, broken)
            console.print(f"removed; `dreamer run {study.arguments}` makes it again")
            return 0
    removes = f"`dreamer verify {study.arguments} --repair` removes what is damaged"
    console.print(removes if rows else f"`dreamer run {study.arguments}` enters these rows again")
    return 1


def find_damage(root: Path) -> tuple[int, dict[Path, dict[str, str]]]:
    """Compare every finished output of a store with its digests.

    Returns how many there are, and of each damaged one what is wrong, by file.
    """
    found = [path for stage in VERSIONS for path in sorted(root.glob(f"{stage}/*"))]
    outputs, damaged = [path for path in found if path.suffix not in (PARTIAL, ".lock")], {}
    for number, path in enumerate(outputs, start=1):
        if wrong := _damage_of(path):
            damaged[path] = wrong
        reports.report("verify", number / len(outputs), f"{path.parent.name}/{path.name}")
    return len(outputs), damaged


def _damage_of(output: Path) -> dict[str, str]:
    """Compare a decision, a run or an output of another stage with its digests; returns what is
    wrong, by file."""
    try:
        if output.parent.name == "decisions":
            read_sealed(output)
            return {}
        if output.parent.name != "runs":
            return damage(output)
        parts = sorted(output.glob("checkpoints/[0-9]*[0-9]"))
        wrong = {
            f"{part.relative_to(output)}/{name}": said
            for part in parts
            for name, said in damaged_files(part).items()
        }
        wrong |= {f"state/{name}": said for name, said in damaged_state(output / "state").items()}
        if not wrong:
            read_record(output)
        return wrong
    except InputError as error:
        place, _, words = str(error).partition(";")[0].partition(" ")
        return {os.path.relpath(place, output): words}


def damaged_results(database: Path) -> str:
    """Say what is wrong with a results file; "" where nothing is, or no file is there. Raises
    InputError."""
    if not database.exists():
        return ""
    if not os.access(database, os.R_OK):
        raise InputError(f"{database}: cannot be read by this user")
    try:
        read_all(database)
    except Damaged:
        return "cannot be read"
    return ""


def _wrong_rows(study: Study) -> list[str]:
    """List the outputs of a finished study whose rows in the results are missing or changed."""
    plan, done = Plan(study), study.database.exists() and report_mark(study).exists()
    return differing(study.database, outputs_of(plan)) if done and plan.evaluated else []


def repair(study: Study, damaged: Iterable[Path], broken: str) -> None:
    """Remove damaged outputs from the store; put aside results that cannot be read."""
    for output in damaged:
        shutil.rmtree(output) if output.is_dir() else output.unlink()
    if broken:
        for path in (study.database, study.database.with_name(f"{study.database.name}.wal")):
            if path.exists():
                path.rename(path.with_name(f"{path.name}.damaged"))
