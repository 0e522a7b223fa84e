"""Write what tells a finished output from a damaged one, and compare: sealed JSON files, and
manifests of folders.

A sealed file holds a digest of its own values; a manifest is sealed and holds the digests of the
files beside it. Sizes and times prove nothing: bad disks and copying programs keep both.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.storage.digests import canonical, digest, file_digest

MANIFEST = "manifest.json"
SEAL = "seal"
KEYS = {"key", "configuration", "inputs", "files"}
REPAIR = "`dreamer verify STUDY --repair` removes what is damaged, and the next run makes it again"


def sealed(values: Mapping[str, Any]) -> str:
    """Write values as the text of a sealed JSON file."""
    plain = json.loads(canonical(values))  # as they will be read: with names of text
    return json.dumps({**plain, SEAL: digest(plain)}, indent=1, sort_keys=True)


def read_sealed(path: Path) -> dict[str, Any]:
    """Read the values of a sealed JSON file. Raises InputError where the file is missing or
    damaged."""
    try:
        values = json.loads(path.read_bytes())
        whole = values.pop(SEAL) == digest(values)
    except FileNotFoundError:
        raise InputError(f"{path} is missing; run the study again to make it") from None
    except (ValueError, KeyError, TypeError, AttributeError):  # not JSON, or no object with a seal
        whole = False
    if not whole:
        raise InputError(f"{path} is damaged; {REPAIR}")
    return values


def write_manifest(folder: Path, values: Mapping[str, Any]) -> None:
    """Write the manifest of an output: the given values, and size and digest of every file in the
    output's folder."""
    files = {
        str(path.relative_to(folder)): {"bytes": path.stat().st_size, "blake2b": file_digest(path)}
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != MANIFEST
    }
    (folder / MANIFEST).write_text(sealed({**values, "files": files}))


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read the manifest of a finished output. Raises InputError where it is missing, damaged, or of
    another output.

    Files are named by relative paths inside the folder, so that nothing else is ever touched
    because of a manifest.
    """
    path = folder / MANIFEST
    manifest = read_sealed(path)
    whole = manifest.get("key") == folder.name and set(manifest) >= KEYS
    if not whole or any(
        Path(name).is_absolute() or ".." in Path(name).parts for name in manifest["files"]
    ):
        raise InputError(f"{path} is damaged; {REPAIR}")
    return manifest


def damage(folder: Path) -> dict[str, str]:
    """Say what is wrong with the files of a finished output, by name. Raises InputError for a
    damaged manifest."""
    found = {}
    for name, known in read_manifest(folder)["files"].items():
        if not (folder / name).exists():
            found[name] = "is missing"
        elif (size := (folder / name).stat().st_size) != known["bytes"]:
            found[name] = f"has {size:,} bytes, not {known['bytes']:,}"
        elif file_digest(folder / name) != known["blake2b"]:
            found[name] = "has other content than when it was written"
    return found


def check(folder: Path) -> None:
    """Raise InputError for an output whose files are not those of its manifest, before they are
    used."""
    for name, wrong in damage(folder).items():
        raise InputError(f"{folder / name} {wrong}; {REPAIR}")
