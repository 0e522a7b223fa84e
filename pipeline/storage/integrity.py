"""Read the manifests of finished outputs, and compare outputs with them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pipeline.errors import InputError
from pipeline.storage.files import PARTIAL

MANIFEST = "manifest.json"
KEYS = {"key", "configuration", "inputs", "files"}
REPAIR = "`dreamer verify STUDY --repair` removes what is damaged, and the next run makes it again"


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read the manifest of a finished output. Raises InputError where it is missing, damaged, or of another output.

    Files are named by relative paths inside the folder, so that nothing else is ever touched because of a manifest.
    """
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_text())
    except FileNotFoundError:
        raise InputError(f"{path} is missing; run the study again to make it") from None
    except ValueError as error:
        raise InputError(f"{path} is damaged ({error}); {REPAIR}") from None
    whole = isinstance(manifest, dict) and manifest.get("key") == folder.name and set(manifest) >= KEYS
    if not whole or any(Path(name).is_absolute() or ".." in Path(name).parts for name in manifest["files"]):
        raise InputError(f"{path} is damaged; {REPAIR}")
    return manifest


def damage(
    folder: Path, files: Mapping[str, Mapping[str, Any]], digest_of: Callable[[Path], str], *, thorough: bool = False
) -> dict[str, str]:
    """Say what is wrong with the files of a finished output, by name, from the `files` of its manifest.

    Sizes are compared, and the digests of files that were changed after the manifest was written; with `thorough`,
    those of all files.
    """
    written = (folder / MANIFEST).stat().st_mtime_ns
    found = {}
    for name, known in files.items():
        try:
            state = (folder / name).stat()
        except OSError:
            found[name] = "is missing"
            continue
        if state.st_size != known["bytes"]:
            found[name] = f"has {state.st_size:,} bytes, not {known['bytes']:,}"
        elif (thorough or state.st_mtime_ns > written) and digest_of(folder / name) != known["blake2b"]:
            found[name] = "has other content than when it was written"
    return found


def reopen(folder: Path) -> None:
    """Turn a finished output into an unfinished one, in which work goes on."""
    (folder / MANIFEST).unlink(missing_ok=True)
    folder.rename(folder.with_name(folder.name + PARTIAL))
