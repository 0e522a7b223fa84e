"""Copy data sets from a mirror at an address (s3://, gs://, hf://, memory://: whatever fsspec reads) into a folder.

The stages of curation read their inputs several times and in parts, and a key in the store needs the digest of every
file; so files are copied once, as those of the hub are, and read from the copy.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

from pydantic import BeforeValidator

from pipeline.errors import InputError
from pipeline.progress import Progress, quiet
from pipeline.sources.repositories.hub import PARALLEL_FILES, RECORD, read_record, written_card
from pipeline.sources.repositories.splits import CARD, Part, card_configurations, data_files, select_files
from pipeline.storage.files import atomic_file, write_text_atomically

COPIED = ".copied.json"
# A user's name or password, or a signed query; also behind `::`. abfs://container@account holds no user.
_SECRET = re.compile(r"://[^/@]*:[^/]*@|(?<!abfs)(?<!abfss)://[^/]*@|\?")
_QUERY = re.compile(r"\?[^\s'\")]+")


def _folder_or_address(place: Any) -> Any:
    """Keep an address as text and make a path of any other text.

    Raises ValueError, in words without the address, for credentials.
    """
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
    address: str,
    repository: str,
    folder: Path,
    *,
    parts: Sequence[Part],
    also: Sequence[Part] = (),
    progress: Progress = quiet,
) -> None:
    """Copy the files of the splits `parts` of a repository at an address into `folder`, which becomes its mirror.

    Splits `also` are copied where the address has them; nothing is copied where the address lacks one of `parts`. The
    card of the copy names exactly what is here. What has been copied is not asked for again: remove `folder` to copy
    anew. Raises InputError when the address cannot be read, needs a package that is not installed, or holds nothing at
    all, and when the address holds another commit than the copy.
    """
    copied = _read_copied(folder)
    if all(copied.get(part) for part in parts) and copied.keys() >= set(also):
        return
    with _in_one_line(address):
        there = _list(address, repository)
        found = {part: there.files(part) for part in (*parts, *also) if not copied.get(part)}
        if not all(found.get(part, True) for part in parts):
            return
        here = read_record(folder)
        if here and there.record and here["revision"] != there.record["revision"]:
            raise InputError(
                f"mirror {address}: {repository} is at {there.record['revision'][:12]} now, and {folder} holds files "
                f"of {here['revision'][:12]}: remove that folder to copy anew"
            )
        _copy_files(there, data_files({name for names in found.values() for name in names}), folder, progress)
        _write_records(there, copied | found, folder)


def copy_file(address: str, repository: str, mirror: Path, name: str) -> None:
    """Copy a file that stands with a repository at an address, in its owner's folder or at the address itself.

    The file stands in the folder `mirror` as at the address. Nothing is copied where the file is here already.
    """
    places = [str(place / name) for place in (PurePosixPath(repository), *PurePosixPath(repository).parents)]
    if any((mirror / place).is_file() for place in places):
        return
    with _in_one_line(address):
        system, root = _open(address)
        if found := next((place for place in places if system.isfile(f"{root}/{place}")), None):
            _copy(system, f"{root}/{found}", mirror / found)


@dataclass(frozen=True)
class _Listing:
    """Hold what a repository at an address has: the full paths and sizes by name, the card and the hub's record."""

    repository: str
    origin: str
    system: Any
    paths: Mapping[str, str]
    sizes: Mapping[str, int]
    card: str
    record: Mapping[str, Any]

    def files(self, part: Part) -> list[str]:
        """Name the files of a split; of a repository with a record of `dreamer download`, of complete splits only."""
        if not self.record:
            return select_files(self.paths, *part, card_configurations(self.card, f"{self.origin}/{CARD}"))
        names = next((e["files"] for e in self.record["parts"] if (e["configuration"], e["split"]) == part), [])
        return names if self.paths.keys() >= set(names) else []


def _open(address: str) -> tuple[Any, str]:
    import fsspec

    system, root = fsspec.url_to_fs(address)
    return system, root.rstrip("/")


def _list(address: str, repository: str) -> _Listing:
    system, root = _open(address)
    try:
        found = system.find(f"{root}/{repository}", detail=True)
    except FileNotFoundError:
        found = {}
    if not found and not _holds_anything(system, root):
        raise InputError(f"mirror {address}: there is nothing at this address; check its spelling")
    place = f"{root}/{repository}/".lstrip("/")  # in an archive, paths begin without a slash
    paths = {path[path.index(place) + len(place) :]: path for path in found if place in path}
    paths = {name: path for name, path in paths.items() if ".." not in PurePosixPath(name).parts}  # out of the folder
    card = system.cat_file(paths[CARD]).decode(errors="replace") if CARD in paths else ""
    record = json.loads(system.cat_file(paths[RECORD])) if RECORD in paths else {}
    sizes = {name: int(found[path].get("size") or 0) for name, path in paths.items()}
    return _Listing(repository, f"{repository} at {address}", system, paths, sizes, card, record)


def _holds_anything(system: Any, root: str) -> bool:
    try:
        return bool(system.ls(root, detail=False))
    except FileNotFoundError:
        return False


def _copy_files(there: _Listing, names: Sequence[str], folder: Path, progress: Progress) -> None:
    total, done = max(sum(there.sizes[name] for name in names), 1), 0

    def copy(name: str) -> str:
        _copy(there.system, there.paths[name], folder / name)
        return name

    with ThreadPoolExecutor(PARALLEL_FILES) as threads:
        for name in threads.map(copy, names):
            done += there.sizes[name]
            progress(done / total, f"{there.repository}: {name}")


def _copy(system: Any, path: str, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(target) as partial:
        system.get_file(path, str(partial))


def _write_records(there: _Listing, copied: Mapping[Part, Sequence[str]], folder: Path) -> None:
    """Write the card, the hub's record and our own, which names the splits that were asked for; of what is here."""
    here = {part: names for part, names in copied.items() if names}
    entries = [{"configuration": c, "split": s, "files": list(names)} for (c, s), names in sorted(copied.items())]
    if here:
        write_text_atomically(folder / CARD, written_card(there.card, here, there.origin))
    if there.record:
        held = {name for names in here.values() for name in names}
        sizes = {name: size for name, size in there.record["bytes"].items() if name in held}
        record = {**there.record, "parts": [entry for entry in entries if entry["files"]], "bytes": sizes}
        write_text_atomically(folder / RECORD, json.dumps(record, indent=1))
    write_text_atomically(folder / COPIED, json.dumps({"parts": entries}, indent=1))


def _read_copied(folder: Path) -> dict[Part, list[str]]:
    """Read which files were copied of each split that was asked for; no files of a split that was not there."""
    path = folder / COPIED
    entries = json.loads(path.read_text())["parts"] if path.exists() else []
    return {(entry["configuration"], entry["split"]): entry["files"] for entry in entries}


@contextmanager
def _in_one_line(address: str) -> Iterator[None]:
    """Raise errors of fsspec, and of the packages behind it, as InputError; without the query of a signed address."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        first = _QUERY.sub("", next(iter(str(error).strip().splitlines()), ""))[:200]
        reason = f"cannot be read ({type(error).__name__}: {first})"
        if isinstance(error, ImportError):
            reason = f"a package that fsspec needs for it is not installed ({first})"
        raise InputError(f"mirror {address}: {reason}") from error
