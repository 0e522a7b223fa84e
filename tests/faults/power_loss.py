"""Simulate a loss of power: what was written and not synced is lost.

Work runs in a process whose `os.fsync` keeps a copy of each file that is synced. The power fails instead of one of the
syncs. Then a file has the bytes of its last sync, none where the file was never synced; half of the files, by chance,
have the bytes of that moment, as the kernel writes files back whenever it likes. Folders have the names of that moment
or, every other time by chance, those of the last sync: a journal keeps the order of names, and may not have written the
newest.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from threading import RLock

from tests.copies import exit_status

LOSSES = 200


class Disk:
    """The files below `root`, of which copies of what is durable lie in `kept`; the power fails at sync `last`."""

    def __init__(self, root: Path, kept: Path, last: int, seed: int) -> None:
        self.root, self.kept, self.left = root, kept, last
        self._chance = Random(seed)
        self._lock = RLock()  # states are saved by a thread
        self._open: list[int] = []  # files held open, so that no other file gets their inode
        for path in root.rglob("*"):
            if path.is_file():
                self._keep(path)
        self._tree = self._list()

    def fsync(self, handle: int) -> None:
        """Record the bytes of a synced file, and the names of all files at this moment, as durable."""
        with self._lock:
            self.left -= 1
            if self.left < 0:
                self.lose_power()
            path = Path(os.readlink(f"/proc/self/fd/{handle}"))
            if path.is_relative_to(self.root) and path.is_file():
                self._keep(path)
            self._tree = self._list()

    def lose_power(self) -> None:
        """End the process, and leave beside the copies which files the disk has."""
        for name in sorted(name for name, inode in self._list().items() if inode is not None):
            with suppress(FileNotFoundError):  # another thread has just renamed the file
                if self._chance.random() < 0.5:
                    self._keep(self.root / name)
        tree = self._chance.choice([self._list(), self._tree])
        (self.kept / "tree.json").write_text(json.dumps(tree))
        os.kill(os.getpid(), signal.SIGKILL)

    def _keep(self, path: Path) -> None:
        self._open.append(os.open(path, os.O_RDONLY))
        shutil.copy2(path, self.kept / str(os.fstat(self._open[-1]).st_ino))

    def _list(self) -> dict[str, int | None]:
        """List folders (None) and files (their inodes) below the root, folders before what is in them."""
        found: dict[str, int | None] = {}
        for folder, folders, files in os.walk(self.root):  # reads each folder once: another thread may be making one
            place = Path(folder)
            found.update({str((place / name).relative_to(self.root)): None for name in folders})
            for name in files:
                with suppress(FileNotFoundError):  # another thread has just given the file its name
                    found[str((place / name).relative_to(self.root))] = (place / name).stat().st_ino
        return found


def restore(root: Path, kept: Path) -> None:
    """Lay out what the disk has after a loss of power."""
    shutil.rmtree(root)
    root.mkdir()
    for name, inode in json.loads((kept / "tree.json").read_text()).items():
        if inode is None:
            (root / name).mkdir()
        elif (kept / str(inode)).exists():
            shutil.copy2(kept / str(inode), root / name)
        else:
            (root / name).touch()


def outlive(work: Callable[[Path], object], root: Path, copies: Path) -> int:
    """Call `work(root)` again after every loss of power until the work ends; return the number of losses.

    The power fails at a random sync, soon in the first attempts: a stage may sync dozens of files before it is named.
    """
    chance = Random(0)
    for losses in range(LOSSES):
        kept = copies / str(losses)
        kept.mkdir(parents=True)
        status = exit_status(_work, work, root, kept, chance.randrange(3 + 2 * losses), losses)
        if status == 0:
            return losses
        assert status == -signal.SIGKILL, f"the work failed after {losses} losses of power"
        restore(root, kept)
        shutil.rmtree(kept)
    raise AssertionError(f"not finished after {LOSSES} losses of power")


def _work(work: Callable[[Path], object], root: Path, kept: Path, last: int, seed: int) -> None:
    os.fsync = Disk(root, kept, last, seed).fsync
    work(root)
