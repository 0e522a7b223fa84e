"""`dreamer clean`: show what a store holds and which studies use it, and remove what nobody uses."""

from __future__ import annotations

import argparse
import shutil
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path

import pandas as pd

from flows.commands.planning.data_plan import amount
from flows.commands.tables import console, print_table
from flows.running.single import only_run
from flows.stages.usage import USERS, Stored, has_finished, stored, users_of
from flows.study.configuration import Study
from flows.study.loading import load_study
from pipeline.errors import InputError

REMOVED = "removed"  # where an output lies while it is removed, so that a kill leaves nothing half in its place


def clean(options: argparse.Namespace) -> int:
    """Print the store of a study, and remove what nobody uses after asking; returns 1 where something stays by a no.

    While a study of the store is unfinished nothing is removed: that study may go on with any output. Raises InputError
    where a study of the store is running, and for a shared store that former versions wrote: the store does not know
    its studies.
    """
    study = load_study(options.study, root=options.root)
    store = study.store_folder
    if not store.is_dir():
        raise InputError(f"{study.name}: not started; nothing in {store}")
    if study.store and not (store / USERS).is_dir():
        raise InputError(f"{store}: which studies use this store is not known; run each study of this store once first")
    folders = sorted({*users_of(store), *([study.folder.resolve()] if study.folder.is_dir() else [])})
    found = stored(store, folders)
    print_table(_table(found))
    unused = [output for output in found if not output.users]
    if not unused:
        console.print("\nevery output is in use")
        return 0
    size = amount(sum(output.size for output in unused))
    unfinished = [folder for folder in folders if not has_finished(folder)]
    if unfinished:
        names = ", ".join(map(str, unfinished))
        console.print(f"\n{size} may be needed by unfinished studies: finish them, or remove their folders: {names}")
        return 0
    if not (options.yes or _asked(f"\nRemove {len(unused)} outputs, {size}, that nobody uses? [y/N] ")):
        return 1
    with ExitStack() as held:
        for folder in folders:
            held.enter_context(only_run(_in(study, folder)))
        unused = [output for output in stored(store, folders) if not output.users]  # a study may have run meanwhile
        for output in unused:
            _remove(store, output)
    console.print(f"removed {len(unused)} outputs, {amount(sum(output.size for output in unused))}")
    return 0


def _table(found: list[Stored]) -> pd.DataFrame:
    """Count outputs and bytes by stage and users, what nobody uses last."""
    groups: dict[tuple[bool, str, str], list[Stored]] = defaultdict(list)
    for output in found:
        users = ", ".join(str(folder) for folder in output.users) or "nobody"
        name = output.stage if output.finished else f"{output.stage}, unfinished"
        groups[not output.users, name, users].append(output)
    rows = [
        {"stage": stage, "outputs": len(outputs), "size": amount(sum(one.size for one in outputs)), "used by": users}
        for (_, stage, users), outputs in sorted(groups.items(), key=lambda item: item[0][0])
    ]
    return pd.DataFrame(rows, columns=["stage", "outputs", "size", "used by"])


def _asked(question: str) -> bool:
    try:
        return input(question).strip().lower() in ("y", "yes")
    except EOFError:
        console.print("\nnobody answers; --yes removes without asking")
        return False


def _in(study: Study, folder: Path) -> Study:
    """Return a study that stands for the one in a folder, to hold its lock."""
    return study.model_copy(update={"root": folder, "name": folder.name})


def _remove(store: Path, output: Stored) -> None:
    place = store / REMOVED / f"{output.stage}-{output.folder.name}"
    if output.stage != REMOVED:
        place.parent.mkdir(exist_ok=True)
        output.folder.rename(place)
    shutil.rmtree(place if output.stage != REMOVED else output.folder)
