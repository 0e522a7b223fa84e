"""`dreamer verify`: compare everything that a study has stored with its digests."""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from dreamer_study.flows.commands.documents import print_document
from dreamer_study.flows.commands.tables import console, print_table
from dreamer_study.flows.plan.data_plan import VERSIONS
from dreamer_study.flows.plan.study_plan import Plan
from dreamer_study.flows.progress import reports
from dreamer_study.flows.progress.study_lock import only_run
from dreamer_study.flows.running.live_results import report_mark
from dreamer_study.flows.running.result_rows import outputs_of
from dreamer_study.flows.study.configuration import Study
from dreamer_study.flows.study.loading import load_study
from dreamer_study.model.checkpoints.checksums import BRANCHES, damaged_files, damaged_state
from dreamer_study.model.training.step_log import read_record
from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.storage.files import PARTIAL
from dreamer_study.pipeline.storage.integrity import damage, read_sealed
from dreamer_study.reports.text.numbers import counted
from dreamer_study.sql.ledger import differing
from dreamer_study.sql.results import Damaged, read_all


class Damage(NamedTuple):
    """A file, and what is wrong with the file."""

    file: Path
    damage: str


def verify(options: argparse.Namespace) -> int:
    """Print what is damaged, and with `--repair` remove it; returns 1 where damage is left."""
    study = load_study(options.study, root=options.root)
    if not study.store_folder.is_dir():
        raise InputError(f"{study.name} was not started yet: {study.store_folder} does not exist")
    alone = only_run(study) if options.repair else nullcontext()
    with alone, reports.listening(reports.Lines()):
        outputs, damaged = find_damage(study.store_folder)
        broken = damaged_results(study.database)
        damages = [
            Damage(output / name, words)
            for output, files in damaged.items()
            for name, words in files.items()
        ]
        if broken:
            damages.append(Damage(study.database, broken))
        wrong_rows = []
        if not damages:  # only what is whole can say which rows there should be
            wrong_rows = [
                Damage(study.database, f"rows of {name} are missing or changed")
                for name in _wrong_rows(study)
            ]
        if damages and options.repair:
            repair(study, damaged, broken)
    found = _Found(outputs, damages, wrong_rows, repaired=bool(damages and options.repair))
    if options.json:
        print_document(study=study.study_id, whole=found.whole, **vars(found))
    else:
        _print(found, study)
    return 0 if found.whole or found.repaired else 1


@dataclass(frozen=True)
class _Found:
    """The number of outputs that were checked, and the damage of each damaged file."""

    outputs: int
    damage: list[Damage]
    wrong_rows: list[Damage]
    repaired: bool

    @property
    def whole(self) -> bool:
        return not self.damage and not self.wrong_rows


def _print(found: _Found, study: Study) -> None:
    if found.whole:
        outputs = counted(found.outputs, "output")
        console.print(f"{study.name}: {outputs} and the results are whole")
        return
    print_table(pd.DataFrame(found.damage or found.wrong_rows))
    if found.repaired:
        console.print(f"removed; `{study.run_command}` makes it again")
    elif found.damage:
        console.print(f"`dreamer verify {study.arguments} --repair` removes what is damaged")
    else:
        console.print(f"`{study.run_command}` enters these rows again")


def find_damage(root: Path) -> tuple[int, dict[Path, dict[str, str]]]:
    """Compare every finished output of a store with its digests.

    Returns how many there are, and of each damaged one what is wrong, by file.
    """
    paths = [path for stage in VERSIONS for path in sorted(root.glob(f"{stage}/*"))]
    outputs = [path for path in paths if path.suffix not in (PARTIAL, ".lock")]
    damaged = {}
    for number, output in enumerate(outputs, start=1):
        wrong = _damage_of(output)
        if wrong:
            damaged[output] = wrong
        reports.report("verify", number / len(outputs), f"{output.parent.name}/{output.name}")
    return len(outputs), damaged


def _damage_of(output: Path) -> dict[str, str]:
    """Compare an output of any stage with its digests; returns what is wrong, by file."""
    try:
        match output.parent.name:
            case "decisions":
                read_sealed(output)
                return {}
            case "runs":
                return _damage_of_run(output)
            case _:
                return damage(output)
    except InputError as error:
        # "<path> is damaged (...); what to do": the path, and what is wrong
        path, _, words = str(error).partition(";")[0].partition(" ")
        return {os.path.relpath(path, output): words}


def _damage_of_run(run: Path) -> dict[str, str]:
    """Compare the checkpoints, branches, state and log of a run with their checksums."""
    wrong = {}
    folders = (*run.glob("checkpoints/[0-9]*[0-9]"), *run.glob(f"{BRANCHES}/[0-9]*[0-9]"))
    for checkpoint in sorted(folders):
        for name, words in damaged_files(checkpoint).items():
            wrong[f"{checkpoint.relative_to(run)}/{name}"] = words
    for name, words in damaged_state(run / "state").items():
        wrong[f"state/{name}"] = words
    if not wrong:
        read_record(run)  # whose log the state vouches for
    return wrong


def damaged_results(database: Path) -> str:
    """Name the damage of a results file; "" where the file is whole or absent.

    Raises InputError where this user may not read the file.
    """
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
    plan = Plan(study)
    is_final = study.database.exists() and report_mark(study).exists()
    if not is_final or not plan.evaluated:
        return []
    return differing(study.database, outputs_of(plan))


def repair(study: Study, damaged: Iterable[Path], broken: str) -> None:
    """Remove damaged outputs from the store; put aside results that cannot be read."""
    for output in damaged:
        if output.is_dir():
            shutil.rmtree(output)
        else:
            output.unlink()
    if broken:
        for path in (study.database, study.database.with_name(f"{study.database.name}.wal")):
            if path.exists():
                path.rename(path.with_name(f"{path.name}.damaged"))
