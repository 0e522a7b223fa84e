"""Find the atlas's data in the package, and make a results file of a world's rows.

A world is a folder of `worlds`, which `collecting.py` writes:

    mixture/recipe.yaml          the settings that all its studies share
            architectures.csv    one row: an architecture, with its costs and its origin
            ratios.csv           rows of the view `token_ratios`
            left_out.csv         one row: an architecture without a row, and why
            rows/runs.parquet    rows of the table `runs`, and so on
"""

from __future__ import annotations

import atexit
import hashlib
import shutil
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

import yaml

from dreamer_study.pipeline.errors import InputError, nearest
from dreamer_study.pipeline.plain_yaml import PlainLoader
from dreamer_study.pipeline.storage.files import write_text_atomically
from dreamer_study.pipeline.user_cache import user_cache

WORLDS = Path(__file__).resolve().parent / "worlds"
PREFIX = "atlas/"  # begins the name of a world where a study file says `from`
ROWS = "rows"
RECIPE = "recipe.yaml"
ARCHITECTURES = "architectures.csv"
RATIOS = "ratios.csv"
LEFT_OUT = "left_out.csv"


def worlds() -> list[str]:
    """List the worlds of the atlas."""
    return sorted(folder.parent.name for folder in WORLDS.glob(f"*/{RECIPE}"))


def world_folder(world: str) -> Path:
    """Return the folder of a world. Raises InputError where the atlas has no such world."""
    if world not in worlds():
        rest = nearest(world, worlds(), f"; it has {', '.join(worlds()) or 'none yet'}")
        raise InputError(f"the atlas has no world {world!r}{rest}")
    return WORLDS / world


def world_of(origin: str) -> str | None:
    """Return the world that `from: atlas/mixture` names; None for the path of something else."""
    world = origin.removeprefix(PREFIX)
    is_world = origin.startswith(PREFIX) and "/" not in world
    return world if is_world else None


def read_recipe(world: str) -> Mapping[str, Any]:
    """Read the settings that all studies of a world share, by the sections of a study file."""
    text = (world_folder(world) / RECIPE).read_text(encoding="utf-8")
    return yaml.load(text, Loader=PlainLoader)


def results_file(world: str) -> Path:
    """Return a results file with the rows of a world.

    It is made at the first use and kept in the user's cache; of a cache that others can write, in a
    temporary folder that goes with this process. A kept file that was changed since is made again.
    Raises InputError where the atlas has no such world.
    """
    folder = world_folder(world)
    # with DuckDB, which the table of the atlas does without
    from dreamer_study.sql.definitions import LAYOUT
    from dreamer_study.sql.results import ingest

    files = sorted((folder / ROWS).glob("*.parquet"))
    content = hashlib.blake2b(str(LAYOUT).encode(), digest_size=8)
    for file in files:
        content.update(file.read_bytes())
    keeping = user_cache() or _temporary_folder()
    kept = keeping / f"atlas-{folder.name}-{content.hexdigest()}.duckdb"
    seal = kept.with_suffix(".blake2b")
    if not _is_sealed(kept, seal):
        made = kept.with_name(f".{kept.name}.{uuid4().hex}")
        try:
            ingest(made, {file.stem: [file] for file in files})
            made.replace(kept)
            write_text_atomically(seal, _digest(kept), shared=True)
        finally:
            made.unlink(missing_ok=True)
    return kept


def _is_sealed(kept: Path, seal: Path) -> bool:
    """Tell whether a kept file is there, with the bytes that were written."""
    if not (kept.is_file() and seal.is_file()):
        return False
    return seal.read_text(encoding="utf-8") == _digest(kept)


def _digest(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "blake2b").hexdigest()


@cache
def _temporary_folder() -> Path:
    """Return a folder of this process, which goes with it."""
    temporary = Path(tempfile.mkdtemp(prefix="dreamer-atlas-"))
    atexit.register(shutil.rmtree, temporary, ignore_errors=True)
    return temporary
