"""Distinguish a finished output from a damaged one: sealed JSON files, and manifests of folders.

A sealed file holds a digest of its own values; a manifest is sealed and holds the digests of the
files beside it (`store` shows one). Sizes and times prove nothing: bad disks and copying programs
keep both.
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


def sealed(values: Mapping[str, Any], *, sort: bool = True) -> str:
    """Write values as the text of a sealed JSON file, sorted by name or in their own order."""
    plain = json.loads(canonical(values)) if sort else json.loads(json.dumps(values))
    return json.dumps({**plain, SEAL: digest(plain)}, indent=1, sort_keys=sort)


def read_sealed(path: Path) -> dict[str, Any]:
    """Read the values of a sealed JSON file.

    Raises InputError where the file is missing or damaged.
    """
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
    """Write the manifest of an output: the given values, and size and digest of its every file."""
    files = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name != MANIFEST:
            name = str(path.relative_to(folder))
            files[name] = {"bytes": path.stat().st_size, "blake2b": file_digest(path)}
    (folder / MANIFEST).write_text(sealed({**values, "files": files}))


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read the manifest of a finished output.

    Files are named by relative paths inside the folder, so that nothing else is ever touched
    because of a manifest. Raises InputError where the manifest is missing, damaged, or of another
    output.
    """
    path = folder / MANIFEST
    manifest = read_sealed(path)
    own = manifest.get("key") == folder.name and set(manifest) >= KEYS
    if not own or not all(map(_leads_inside, manifest["files"])):
        raise InputError(f"{path} is damaged; {REPAIR}")
    return manifest


def _leads_inside(name: str) -> bool:
    return not Path(name).is_absolute() and ".." not in Path(name).parts


def damage(folder: Path) -> dict[str, str]:
    """Say what is wrong with the files of a finished output, by name.

    Raises InputError for a damaged manifest.
    """
    wrong = {}
    for name, written in read_manifest(folder)["files"].items():
        path = folder / name
        if not path.exists():
            wrong[name] = "is missing"
            continue
        size = path.stat().st_size
        if size != written["bytes"]:
            wrong[name] = f"has {size:,} bytes, not {written['bytes']:,}"
        elif file_digest(path) != written["blake2b"]:
            wrong[name] = "has other content than when it was written"
    return wrong


def check(folder: Path) -> None:
    """Raise InputError for an output whose files are not those of its manifest.

    Whoever is going to read an output calls this first.
    """
    for name, wrong in damage(folder).items():
        raise InputError(f"{folder / name} {wrong}; {REPAIR}")


def read_whole(folder: Path, name: str) -> bytes:
    """Read a file of an output, which has to be as it was written.

    A folder without a manifest, such as a stage's own while the stage works, vouches for nothing.
    Raises InputError where the file is damaged or missing.
    """
    path = folder / name
    if (folder / MANIFEST).exists():
        written = read_manifest(folder)["files"].get(name, {}).get("blake2b")
        if not path.exists():
            raise InputError(f"{path} is missing; {REPAIR}")
        if file_digest(path) != written:
            raise InputError(f"{path} has other content than when it was written; {REPAIR}")
    return path.read_bytes()
