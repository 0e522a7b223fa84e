"""Copy data sets from a mirror at an address (s3://, gs://, hf://, memory://: whatever fsspec reads) into a folder.

The stages of curation read their inputs several times and in parts, and a key in the store needs the digest of every
file; so files are copied once, as those of the hub are, and read from the copy.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator

from pipeline.errors import InputError
from pipeline.progress import Progress, quiet
from pipeline.sources.repositories.hub import PARALLEL_FILES, RECORD
from pipeline.sources.repositories.splits import CARD, Part, card_configurations, data_files, select_files
from pipeline.storage.files import atomic_file, write_text_atomically

COPIED = ".copied.json"
_SECRET = re.compile(r"^[^/]+://[^/]*@|\?")  # a user's name and password, or a signed query
_QUERY = re.compile(r"\?[^\s'\")]+")


def _folder_or_address(place: Any) -> Any:
    """Keep an address as text and make a path of any other text. Raises ValueError, without it, for credentials."""
    if not isinstance(place, str) or "://" not in place:
        return Path(place) if isinstance(place, str) else place
    if _SECRET.search(place):
        raise ValueError(
            "the address holds credentials, which would be written down with the study; give them where fsspec's "
            "package looks for them (AWS_ACCESS_KEY_ID, GOOGLE_APPLICATION_CREDENTIALS, HF_TOKEN)"
        )
    return place


Mirror = Annotated[Path | str, BeforeValidator(_folder_or_address)]  # text where an address is given


def copy_repository(
    address: str, repository: str, folder: Path, *, parts: Sequence[Part], progress: Progress = quiet
) -> None:
    """Copy the files of the splits `parts` of a repository at an address into `folder`, which becomes its mirror.

    What has been copied is not asked for again: remove `folder` to copy anew. Where the address has no such splits
    nothing is copied. Raises InputError when the address cannot be read, or needs a package that is not installed.
    """
    record = _read_record(folder)
    copied = {tuple(part) for part in record.get("parts", ())} if record.get("address") == address else set()
    if copied.issuperset(parts):
        return
    try:
        system, sizes, keep = _selected(address, repository, parts)
        done = 0
        with ThreadPoolExecutor(PARALLEL_FILES) as threads:
            for name in threads.map(lambda name: _copy(system, name, folder / keep[name]), keep):
                done += sizes[name]
                progress(done / max(sum(sizes[name] for name in keep), 1), f"{repository}: {keep[name]}")
    except InputError:
        raise
    except Exception as error:  # the packages behind fsspec raise errors of several libraries
        raise InputError(f"mirror {address}: {_reason(error)}") from error
    if keep:
        record = {"address": address, "parts": sorted({*copied, *parts})}
        write_text_atomically(folder / COPIED, json.dumps(record, indent=1))


def _selected(address: str, repository: str, parts: Sequence[Part]) -> tuple[Any, dict[str, int], dict[str, str]]:
    """List a repository: its file system, sizes by path, and the names by path of what to copy; none without a part."""
    import fsspec

    system, root = fsspec.url_to_fs(address)
    place = f"{root.rstrip('/')}/{repository}/"
    try:
        found = system.find(place.rstrip("/"), detail=True)
    except FileNotFoundError:
        found = {}
    sizes = {path: int(entry.get("size") or 0) for path, entry in found.items()}
    paths = {path[path.index(place) + len(place) :]: path for path in sizes if place in path}
    card = card_configurations(system.cat_file(paths[CARD]).decode(errors="replace")) if CARD in paths else {}
    selected = [select_files(paths, configuration, split, card) for configuration, split in parts]
    if not all(selected):
        return system, sizes, {}
    names = data_files({name for files in selected for name in files})
    return system, sizes, {paths[name]: name for name in (*names, CARD, RECORD) if name in paths}


def _copy(system: Any, path: str, target: Path) -> str:
    target.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(target) as partial:
        system.get_file(path, str(partial))
    return path


def _read_record(folder: Path) -> dict[str, Any]:
    path = folder / COPIED
    return json.loads(path.read_text()) if path.exists() else {}


def _reason(error: Exception) -> str:
    """Put an error of fsspec, or of a package behind it, into one line, without the query of a signed address."""
    first = _QUERY.sub("", next(iter(str(error).strip().splitlines()), ""))[:200]
    if isinstance(error, ImportError):
        return f"a package that fsspec needs for it is not installed ({first})"
    return f"cannot be read ({type(error).__name__}: {first})"
