"""Record which studies use which outputs of a store.

Each study leaves a note in `store/studies/`, for example

    {"folder": "../runs/demo", "finished": true, "uses": ["clean/0f31...", "runs/LA-4-s0-9c..."]}
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from dreamer_study.flows.plan.sizes import COUNTS
from dreamer_study.flows.plan.study_plan import Plan
from dreamer_study.flows.progress.disk import folder_size
from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.storage.digests import digest
from dreamer_study.pipeline.storage.files import write_text_atomically

USERS = "studies"  # a folder of the store with a file for each study
UNUSED = (USERS, COUNTS, "digests", "texts")  # folders of the store that hold no outputs


@dataclass(frozen=True)
class User:
    """A study that uses a store: its folder, its outputs by name, and whether it has ended."""

    folder: Path
    names: frozenset[str]
    finished: bool


@dataclass(frozen=True)
class Stored:
    """An output of a store, finished or not: size, and the folders of the studies that use it."""

    stage: str
    folder: Path
    size: int
    users: tuple[Path, ...]


def register_user(plan: Plan) -> None:
    """Note in the store what a study uses of it.

    The path of the study is relative, so that both may be moved together.
    """
    store = plan.study.store_folder
    folder = os.path.relpath(plan.study.folder.resolve(), store.resolve())
    path = store / USERS / f"{digest(folder)}.json"
    note = {"folder": folder, "finished": plan.evaluated, "uses": sorted(plan.names())}
    text = json.dumps(note, indent=1)
    if not path.exists() or path.read_bytes() != text.encode():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text_atomically(path, text)


def users_of(store: Path) -> list[User]:
    """List the studies that use a store and are still there.

    Raises InputError for a damaged note.
    """
    users = []
    for path in sorted((store / USERS).glob("*.json")):
        try:
            values = json.loads(path.read_text())
            folder = (store / values["folder"]).resolve()
            user = User(folder, frozenset(values["uses"]), values["finished"])
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path} is damaged ({error}); run its study again") from None
        if folder.is_dir():
            users.append(user)
    return users


def stored(store: Path, users: list[User]) -> list[Stored]:
    """List every output of a store with the studies that use it."""
    outputs = []
    for path in sorted(store.glob("*/*")):
        stage = path.parent.name
        if stage in UNUSED or path.name.endswith(".lock"):
            continue
        name = f"{stage}/{path.name.removesuffix('.json')}"  # a decision is a file
        using = tuple(user.folder for user in users if name in user.names)
        size = folder_size(path) if path.is_dir() else path.stat().st_size
        outputs.append(Stored(stage, path, size, using))
    return outputs
