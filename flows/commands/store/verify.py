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
from flows.running import progress
from flows.running.single import only_run
from flows.study.configuration import Study
from flows.study.loading import load_study
from pipeline.errors import InputError
from pipeline.storage.files import PARTIAL
from pipeline.storage.integrity import MANIFEST, PARTS, damage, remove_damage, reopen
from pipeline.storage.store import Store, file_digest
from sql.results import Damaged, read_all


@dataclass(frozen=True)
class Finding:
    """A damaged output of the store: its stage and folder, and what is wrong, by file."""

    stage: str
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
    """Compare every finished output of a store with its manifest; returns how many there are, and the damaged ones."""
    store, findings = Store(root), []
    folders = [path for path in sorted(root.glob("*/*/")) if not path.name.endswith(PARTIAL)]
    for number, folder in enumerate(folders, start=1):
        stage = folder.parent.name
        try:
            output = store.find(stage, folder.name)
            wrong = (
                damage(folder, output.manifest["files"], file_digest, thorough=True)
                if output
                else {MANIFEST: "is missing"}
            )
        except InputError:
            wrong = {MANIFEST: "is damaged"}
        if wrong:
            findings.append(Finding(stage, folder, wrong))
        progress.report("verify", number / len(folders), f"{stage}/{folder.name}")
    return len(folders), findings


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


def repair(study: Study, findings: list[Finding], broken: str) -> None:
    """Remove what is damaged from the store; put aside results that cannot be read."""
    for finding in findings:
        if MANIFEST not in finding.wrong:
            remove_damage(finding.stage, finding.folder, finding.wrong)
        elif finding.stage in PARTS and not finding.folder.with_name(finding.folder.name + PARTIAL).exists():
            reopen(finding.folder)
        else:
            shutil.rmtree(finding.folder)
    if broken:
        for path in (study.database, study.database.with_name(f"{study.database.name}.wal")):
            if path.exists():
                path.rename(path.with_name(f"{path.name}.damaged"))
