"""Links in folders that a study writes to, which somebody else may have filled."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from dreamer_study.pipeline.errors import InputError


def refuse_links(folder: Path, names: Iterable[str]) -> None:
    """Raise InputError where one of these entries of a folder, or a link below, leads out of it.

    Whoever writes to a link's name would overwrite a file elsewhere;
    folders of strangers, and git, carry links. The folder itself may be a link of the user.
    """
    inside = folder.resolve()
    for link in (link for name in names for link in _links(inside / name)):
        target = link.resolve()
        if not target.is_relative_to(inside):
            raise InputError(
                f"{link} is a link to {target}, outside of {folder}, and writing there would change"
                " that; remove the link"
            )


def _links(path: Path) -> Iterator[Path]:
    """Yield a path, if it is a link, or the links at any depth below, without following them."""
    if path.is_symlink():
        yield path
    elif path.is_dir():
        yield from _links_below(path)


def _links_below(folder: Path) -> Iterator[Path]:
    try:
        with os.scandir(folder) as found:
            entries = list(found)
    except FileNotFoundError:  # another process may remove a folder meanwhile
        return
    for entry in entries:
        if entry.is_symlink():
            yield Path(entry.path)
        elif entry.is_dir(follow_symlinks=False):
            yield from _links_below(Path(entry.path))
