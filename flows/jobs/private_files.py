"""Folders and files that nobody else on a shared machine can plant, read or change."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path
from typing import TextIO

from dreamer_study.pipeline.errors import InputError

COMPILED = "TORCHINDUCTOR_CACHE_DIR"


def private_folder(name: str) -> Path:
    """Make a folder for this user alone in the temporary directory; all processes of the user have
    `name` in common.

    Raises InputError where another user has put something at its place.
    """
    home = Path(tempfile.gettempdir()) / f"dreamer-{os.getuid()}"
    for folder in (home, home / name):
        folder.mkdir(mode=0o700, exist_ok=True)
        state = folder.lstat()
        if not stat.S_ISDIR(state.st_mode) or state.st_uid != os.getuid():
            raise InputError(
                f"{folder} is not a folder of this user; have it removed, or set TMPDIR to another"
                " place"
            )
        if state.st_mode & 0o077:
            folder.chmod(0o700)
    return home / name


def compiled_libraries() -> dict[str, str]:
    """Return the environment variable that names the folder of torch's compiled libraries: the
    user's choice, or ours.

    Every process that uses torch is started with this: torch would keep the libraries in a folder
    of a name that anybody can guess, and load them from there.
    """
    return {COMPILED: os.environ.get(COMPILED) or str(private_folder("compiled"))}


def open_private(path: Path) -> TextIO:
    """Open a file for writing, readable by this user alone. Raises OSError where a link is at its
    place."""

    def private(name: str, _: int) -> int:
        return os.open(name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)

    return open(path, "w", encoding="utf-8", opener=private)


def write_private(path: Path, text: str) -> None:
    """Replace the text of a file that this user alone can read, in one step.

    The partial file beside it is new: whatever is at its place, a link of somebody else too, is
    removed before.
    """
    partial = path.with_name(f"{path.name}.partial")
    partial.unlink(missing_ok=True)
    new = os.open(
        partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
    )
    with os.fdopen(new, "w", encoding="utf-8") as file:
        file.write(text)
    partial.replace(path)
