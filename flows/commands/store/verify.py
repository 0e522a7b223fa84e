"""`dreamer verify`: compare everything that a study has stored with its digests, and remove what is damaged."""

from __future__ import annotations

import argparse
import os
import shutil
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from flows.commands.tables import console, print_table
from flows.live import report_mark
from flows.plan import VERSIONS, Plan
from flows.rows import outputs_of
from flows.study.configuration import Study
from flows.study.loading import load_study
from flows.watching import progress
from flows.watching.single import only_run
from model.checksums import damaged_files
from pipeline.errors import InputError
from pipeline.storage.files import PARTIAL
from pipeline.storage.integrity import MANIFEST, damage
from sql.ledger import differing
from sql.results import Damaged, read_all


@dataclass(frozen=True)
class Finding:
    """A damaged output of the store: its folder, and what is wrong, by file."""

    folder: Path
    wrong: dict[str, str]


def verify(options: argparse.Namespace) -> int:
    """Print what is damaged, and with `--repair` remove it; returns 1 where damage is left, else 0."""
    study = load_study(options.study, root=options.root)
    if not study.store_folder.is_dir():
        raise InputError(f"{study.name}: not started; nothing in {study.store_folder}")
    with only_run(study) if options.repair else nullcontext():
        return _verify(study, repairs=options.repair)


def _verify(study: Study, *, repairs: bool) -> int:
    with progress.on_terminal():
        outputs, findings = find_damage(study.store_folder)
        broken = damaged_results(study.database)
    rows = [(finding.folder / name, wrong) for finding in findings for name, wrong in finding.wrong.items()]
    rows += [(study.database, broken)] if broken else []
    rows += [] if rows else [(study.database, f"rows of {name} are missing or changed") for name in _wrong_rows(study)]
    if not rows:
        console.print(f"{study.name}: {outputs} outputs and the results are whole")
        return 0
    print_table(pd.DataFrame(rows, columns=["file", "damage"]))
    if not repairs:
        console.print(f"`dreamer verify {study.arguments} --repair` removes what is damaged")
        return 1
    repair(study, findings, broken)
    console.print(f"removed; `dreamer run {study.arguments}` makes it again")
    return 0


def find_damage(root: Path) -> tuple[int, list[Finding]]:
    """Compare every finished output of a store with its digests; returns how many there are, and the damaged ones."""
    stages = [stage for stage in VERSIONS if stage != "decisions"]
    folders = [path for stage in stages for path in sorted(root.glob(f"{stage}/*/")) if path.suffix != PARTIAL]
    findings = []
    for number, folder in enumerate(folders, start=1):
        if wrong := _damaged_run(folder) if folder.parent.name == "runs" else _damaged_output(folder):
            findings.append(Finding(folder, wrong))
        progress.report("verify", number / len(folders), f"{folder.parent.name}/{folder.name}")
    return len(folders), findings


def _damaged_output(folder: Path) -> dict[str, str]:
    """Compare an output with its manifest."""
    try:
        return damage(folder)
    except InputError as error:
        return {MANIFEST: str(error).removeprefix(f"{folder / MANIFEST} ").partition(";")[0]}


def _damaged_run(folder: Path) -> dict[str, str]:
    """Compare the tensors of a run's checkpoints and of its state with their checksums."""
    parts = [*folder.glob("checkpoints/[0-9]*[0-9]"), *folder.glob("state/[0-9]*[0-9]")]
    return {
        str(part.relative_to(folder) / name): wrong
        for part in sorted(parts)
        for name, wrong in damaged_files(part).items()
    }


def damaged_results(database: Path) -> str:
    """Say what is wrong with a results file; "" where nothing is, or no file is there. Raises InputError."""
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
    """List the outputs of a study that is done whose rows in the results are not those that were entered."""
    plan, done = Plan(study), study.database.exists() and report_mark(study).exists()
    return differing(study.database, outputs_of(plan)) if done and not plan.absent else []


def repair(study: Study, findings: list[Finding], broken: str) -> None:
    """Remove what is damaged from the store; put aside results that cannot be read."""
    for finding in findings:
        shutil.rmtree(finding.folder)
    if broken:
        for path in (study.database, study.database.with_name(f"{study.database.name}.wal")):
            if path.exists():
                path.rename(path.with_name(f"{path.name}.damaged"))
