"""`dreamer clean`: show what a store holds and who uses it, and remove what nobody uses."""

from __future__ import annotations

import argparse
import shlex
import shutil
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

import pandas as pd

from dreamer_study.flows.commands.planning.data_plan import amount
from dreamer_study.flows.commands.tables import console, print_table
from dreamer_study.flows.plan.store_users import Stored, register_user, stored, users_of
from dreamer_study.flows.plan.study_plan import Plan
from dreamer_study.flows.progress.study_lock import only_run
from dreamer_study.flows.study.configuration import Study
from dreamer_study.flows.study.loading import load_study
from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.storage.files import PARTIAL
from dreamer_study.reports.text.numbers import counted


def clean(options: argparse.Namespace) -> int:
    """Print the store of a study, then remove what nobody uses, if confirmed.

    Returns 1 where the answer was no. While a study of the store is unfinished nothing is removed:
    that study may continue with any output.

    Raises InputError where a study of the store is running.
    """
    study = load_study(options.study, root=options.root)
    store = study.store_folder
    if not store.is_dir():
        raise InputError(f"{study.name} was not started yet: {store} does not exist")
    if study.folder.is_dir():
        register_user(Plan(study))  # the study file may have changed
    users = users_of(store)
    outputs = stored(store, users)
    print_table(_table(outputs))
    unused = [output for output in outputs if not output.users]
    if not unused:
        console.print("\nevery output is in use")
        return 0
    size = amount(sum(output.size for output in unused))
    unfinished = [str(user.folder) for user in users if not user.finished]
    if unfinished:
        console.print(
            f"\n{size} may be needed by unfinished studies: finish them, or remove their folders:"
            f" {', '.join(unfinished)}"
        )
        return 0
    outputs_unused = counted(len(unused), "output")
    question = f"\nRemove {outputs_unused}, {size}, that nobody uses? [y/N] "
    if not options.yes and not _confirmed(question):
        return 1
    with ExitStack() as held:
        for user in users:
            held.enter_context(only_run(_in(study, user.folder)))
        # while nobody can start: what was shown is still what is there
        if users_of(store) != users or stored(store, users) != outputs:
            raise InputError(
                f"{store} has changed meanwhile, as a study has begun; nothing was removed"
            )
        for output in unused:
            _remove(output.folder)
    console.print(f"removed {outputs_unused}, {size}")
    return 0


def _table(outputs: list[Stored]) -> pd.DataFrame:
    """Count outputs and bytes by stage and users, what nobody uses last."""
    used: dict[tuple[str, str], list[Stored]] = defaultdict(list)
    unused: dict[tuple[str, str], list[Stored]] = defaultdict(list)
    for output in outputs:
        stage = output.stage
        if output.folder.name.endswith(PARTIAL):
            stage += ", unfinished"
        if output.users:
            used[stage, ", ".join(map(str, output.users))].append(output)
        else:
            unused[stage, "nobody"].append(output)
    rows = [
        {
            "stage": stage,
            "outputs": len(group),
            "size": amount(sum(output.size for output in group)),
            "used by": users,
        }
        for (stage, users), group in [*used.items(), *unused.items()]
    ]
    return pd.DataFrame(rows, columns=["stage", "outputs", "size", "used by"])


def _confirmed(question: str) -> bool:
    try:
        return input(question).strip().lower() in ("y", "yes")
    except EOFError:
        console.print("\nno answer came, and nothing was removed; --yes removes without asking")
        return False


def _in(study: Study, folder: Path) -> Study:
    """Return a stand-in for the study in a folder, by which its lock is held."""
    other = study.model_copy(update={"root": folder, "name": folder.name})
    other._arguments = f"STUDY --root {shlex.quote(str(folder))}"
    return other


def _remove(output: Path) -> None:
    """Remove an output.

    A folder is renamed first, so that a kill leaves no half of an output in its place.
    """
    if output.is_file():
        output.unlink()
        return
    renamed = output.rename(output.with_name(f"{output.name}.{uuid4().hex}{PARTIAL}"))
    shutil.rmtree(renamed)
