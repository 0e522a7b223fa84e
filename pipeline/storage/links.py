"""Links in folders that a study writes to, which somebody else may have filled."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from dreamer_study.pipeline.errors import InputError

LINKED_BY_WANDB = "wandb"  # a folder in a study's, which W&B fills with links to its own logs


def refuse_links(folder: Path) -> None:
    """Raise InputError where a link in a folder leads out of the folder.

    Whoever writes to the link's name would overwrite a file elsewhere: folders of strangers, and
    git, carry links. The folder itself may be a link of the user.
    """
    inside = folder.resolve()
    for link in _links(inside):
        target = link.resolve()
        if not target.is_relative_to(inside):
            raise InputError(
                f"{link} is a link to {target}, outside of {folder}, and writing there would change"
                " that; remove the link"
            )


def _links(folder: Path) -> Iterator[Path]:
    """Yield the links at any depth of a folder, without following them."""
    try:
        with os.scandir(folder) as found:
            entries = list(found)
    except (FileNotFoundError, NotADirectoryError):  # another process may remove a folder meanwhile
        return
    for entry in entries:
        if entry.is_symlink():
            yield Path(entry.path)
        elif entry.is_dir(follow_symlinks=False) and entry.name != LINKED_BY_WANDB:
            yield from _links(Path(entry.path))
