"""Know which studies use which outputs of a store: every study that writes to a store leaves the path of its folder."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flows.running.looks import folder_size
from pipeline.errors import InputError
from pipeline.storage.files import PARTIAL, write_text_atomically
from pipeline.storage.store import Store, digest

USERS = "studies"  # a folder of the store with a file for each study
RECORDS = ("prepared.json", "trained.json", "evaluated.json")  # of a study's folder: what its stages returned


@dataclass(frozen=True)
class Stored:
    """One folder of a store: a finished or unfinished output, its size, and the folders of the studies that use it."""

    stage: str
    folder: Path
    size: int
    users: tuple[Path, ...]

    @property
    def finished(self) -> bool:
        return not self.folder.name.endswith(PARTIAL)


def register_user(store: Path, folder: Path) -> None:
    """Note in a store that the study of a folder uses it. The path is relative: both may be moved together."""
    place = os.path.relpath(folder.resolve(), store.resolve())
    path = store / USERS / digest(place)
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text_atomically(path, place)


def users_of(store: Path) -> list[Path]:
    """List the folders of the studies that have used a store and are still there."""
    places = [path.read_text() for path in (store / USERS).glob("*") if not path.name.endswith(PARTIAL)]
    return sorted(folder for place in places if (folder := (store / place).resolve()).is_dir())


def has_finished(folder: Path) -> bool:
    """Check that all stages of the study in a folder have finished, for one and the same settings, without failures."""
    prepared, trained, evaluated = (_read(folder / name) for name in RECORDS)
    if not (prepared and trained and evaluated):
        return False
    same = prepared["study_id"] == trained["study_id"] == evaluated["study_id"]
    failed = evaluated.get("failures") or any(run["status"] == "failed" for run in trained["runs"])
    return same and not failed


def stored(store: Path, folders: list[Path]) -> list[Stored]:
    """List every output of a store with those of the studies in `folders` that use it, directly or as an input."""
    uses = {folder: _with_inputs(Store(store), set(_named(folder))) for folder in folders}
    found = []
    for path in sorted(store.glob("*/*/")):
        name = f"{path.parent.name}/{path.name}"
        users = tuple(folder for folder, names in uses.items() if name in names)
        found.append(Stored(path.parent.name, path, folder_size(path), users))
    return found


def _named(folder: Path) -> Iterator[str]:
    """List the outputs that the stages of the study in a folder have returned."""
    prepared, trained, evaluated = (_read(folder / name) for name in RECORDS)
    yield from prepared.get("outputs", ())
    yield from (run["output"] for run in trained.get("runs", ()))
    yield from evaluated.get("outputs", {}).values()


def _with_inputs(store: Store, names: set[str]) -> set[str]:
    """Add to some outputs all that they were made of."""
    found: set[str] = set()
    left = list(names)
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            output = store.find(*name.split("/"))
            left += output.manifest["inputs"] if output else []
    return found


def _read(path: Path) -> dict[str, Any]:
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise InputError(f"{path} is damaged ({error}); run the study again") from None
