"""Tell whether the files of a checkpoint or a state are as they were written: `checksums.json` has
the CRC-32 of each.

Torch is not needed: who only reads what a training has recorded starts at once.
"""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.settings import read_object

CHECKSUMS = "checksums.json"
BRANCHES = "branches"  # folder of a run: its finished branches (training/branches.py)
BRANCHING = "branching"  # folder of a run: what its unfinished branches resume from


def write_checksums(folder: Path) -> None:
    """Write the CRC-32 of every file: a flipped bit would be another model, and no error."""
    sums = {
        path.name: _checksum(path) for path in sorted(folder.iterdir()) if path.name != CHECKSUMS
    }
    (folder / CHECKSUMS).write_text(json.dumps(sums))


def _checksum(path: Path) -> str:
    total = 0
    with path.open("rb") as file:
        while block := file.read(2**22):
            total = zlib.crc32(block, total)
    return f"{total:08x}"


def damaged_files(folder: Path) -> dict[str, str]:
    """Say what is wrong with the files of a checkpoint or a state, by name, from their
    checksums."""
    try:
        known = read_object(folder / CHECKSUMS)
    except (FileNotFoundError, InputError):
        return {CHECKSUMS: "is missing or damaged"}
    found = {}
    for name, checksum in known.items():
        try:
            if _checksum(folder / name) != checksum:
                found[name] = "has other content"
        except FileNotFoundError:
            found[name] = "is missing"
    return found


def damaged_state(folder: Path) -> dict[str, str]:
    """Say what is wrong with the files of the newest state in `folder`, also while a trainer
    replaces that state.

    A trainer removes a state only after a newer one is there, and a kill may leave the older one
    half removed.
    """
    while states := list_states(folder):
        found = damaged_files(states[-1])
        if not found or list_states(folder)[-1:] == states[-1:]:
            return {f"{states[-1].name}/{name}": words for name, words in found.items()}
    return {}


def check_file(path: Path) -> None:
    """Raise InputError for a file whose checksum is another one than was written; models from
    elsewhere have none."""
    sums = path.with_name(CHECKSUMS)
    known = read_object(sums).get(path.name) if sums.exists() else None
    if known is not None and known != _checksum(path):
        raise InputError(f"{path} is damaged (its checksum is not the one in {CHECKSUMS})")


def read_checked(path: Path, *names: str) -> dict[str, Any]:
    """Read a JSON object, whose checksum is compared. Raises InputError, and FileNotFoundError
    where no file is."""
    values = read_object(path, *names)
    check_file(path)
    return values


def newest_values(folder: Path, *names: str) -> dict[str, Any] | None:
    """Read the plain values of the newest state in `folder`, also while a trainer replaces it; None
    without a state.

    Raises InputError as `newest_state` does.
    """
    while states := list_states(folder):
        try:
            return read_checked(states[-1] / "values.json", *names)
        except FileNotFoundError:
            # else the trainer has put a newer state in its place
            if list_states(folder)[-1:] == states[-1:]:
                raise InputError(f"{states[-1] / 'values.json'} is missing") from None
    return None


def read_checkpoint(folder: Path) -> dict[str, Any]:
    """Read what `save_weights` wrote as `extra`. Raises InputError where that is missing or
    damaged."""
    try:
        return read_checked(folder / "checkpoint.json")
    except FileNotFoundError:
        raise InputError(f"{folder / 'checkpoint.json'} is missing") from None


def branch_name(start: int, end: int) -> str:
    """Name the folder of a finished branch by its tokens: at its checkpoint, and at its end."""
    return f"{start:015d}-{end:015d}"


def list_branches(run: Path) -> list[tuple[int, int]]:
    """List the finished branches of a run: the tokens at the checkpoint, and those at the end."""
    branches = []
    for path in sorted((run / BRANCHES).glob("[0-9]*[0-9]")):
        start, _, end = path.name.partition("-")
        branches.append((int(start), int(end)))
    return branches


def list_states(folder: Path) -> list[Path]:
    """List the complete states in a folder, the newest at the end; other names are left alone."""
    return sorted(path for path in folder.glob("[0-9]*") if path.name.isdecimal())
