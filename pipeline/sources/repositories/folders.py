"""Find the folder of a data set: in the mirror, in what was fetched before, or on the hub.

The hub is asked with a short time limit: a machine without a network learns within seconds what to
do. `download` fills a mirror for such machines. `datasets` decides which files a split has
(`layouts.py`), and does not read them: its cache doubles the disk space and trusts modification
times.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from glob import glob
from pathlib import Path
from typing import Any

from dreamer_study.pipeline.errors import BrokenDownload, InputError
from dreamer_study.pipeline.sources.repositories import hub
from dreamer_study.pipeline.sources.repositories.layouts import NotInCard
from dreamer_study.pipeline.sources.repositories.splits import (
    Part,
    find_split,
    missing_split,
    natural,
    read_record,
    saved_files,
)
from dreamer_study.pipeline.sources.source import Source
from dreamer_study.pipeline.storage.parallel import Progress, quiet


class Absent(InputError):
    """A data set is in none of the folders, and the hub does not give it."""


def folder_of(
    entry: Any,
    splits: Sequence[str],
    *,
    mirror: Path | str | None,
    cache: Path | str,
    beside: Path = Path(),
) -> Path | None:
    """Find the folder with these splits of a source's or benchmark's data, without the hub.

    Looks in `<mirror>/<owner>/<name>`, in a hub cache inside the mirror
    (`datasets--owner--name/snapshots/...`) and in `cache`; `files` lie `beside` the study file.
    None where no folder has them. Raises InputError when the mirror was fetched at another commit
    than the entry's, and where no folder has them and a card in the mirror lists others.
    """
    if not entry.repository:
        return beside
    parts = _parts(entry, splits)
    cached = _cached_folder(entry, cache)
    not_in_card = None
    for folder in (*_mirror_folders(entry, mirror), cached):
        record = read_record(folder)
        if record:  # the folder was fetched: its record says what is complete
            if entry.revision and not record["revision"].startswith(entry.revision):
                raise InputError(
                    f"{folder} holds {entry.repository} at {record['revision'][:12]}, and"
                    f" {entry.revision[:12]} is pinned: fetch that commit into another mirror, or"
                    " give the source of the study the `revision` of the mirror"
                )
            has_all = hub.is_fetched(record, parts)
        else:  # a user filled the folder: its files say what is there
            has_all = False
            if folder != cached and folder.is_dir():
                missing = missing_split(folder, parts)
                has_all = missing is None
                if isinstance(missing, NotInCard):  # another folder may be of a later commit
                    not_in_card = missing
        if has_all:
            return folder
    if not_in_card:
        raise not_in_card
    return None


def found_or_fetched(
    entry: Any,
    splits: Sequence[str],
    *,
    mirror: Path | str | None,
    cache: Path | str,
    study: str = "STUDY",
    progress: Progress = quiet,
) -> Path:
    """Find the folder of an entry's data as `folder_of` does, or fetch them into `cache`.

    Raises Absent within seconds when neither is possible, with the command that fetches all data
    sets of `study`; BrokenDownload where a download breaks off.
    """
    folder = folder_of(entry, splits, mirror=mirror, cache=cache)
    if folder:
        return folder
    parts = _parts(entry, splits)
    cached = _cached_folder(entry, cache)
    try:
        hub.fetch(entry.repository, cached, revision=entry.revision, parts=parts, progress=progress)
    except BrokenDownload:
        raise
    except InputError as error:
        searched = [*_mirror_folders(entry, mirror), cached]
        places = " or ".join(map(str, searched))
        raise Absent(
            f"{error}; nor is it, with {_named(parts)}, in {places}"
            f"{_what_is_there(searched, parts)}: on a machine with a network run `dreamer download"
            f" {study} --mirror <folder>`, and give that folder as the mirror here"
        ) from error
    return cached


def _what_is_there(folders: Sequence[Path], parts: Sequence[Part]) -> str:
    """Say which splits the first folder has that is there, if not these."""
    missing = [missing_split(folder, parts) for folder in folders if folder.is_dir()]
    said = [str(error) for error in missing if error]
    return f" ({said[0]})" if said else ""


def _named(parts: Sequence[Part]) -> str:
    """Name the first three parts, and say how many more there are."""
    names = ", ".join(
        " ".join(part.patterns) or f"{part.configuration}/{part.split}" for part in parts[:3]
    )
    return f"{names} and {len(parts) - 3} more" if len(parts) > 3 else names


def resolved_revision(folder: Path | str) -> str | None:
    """Return the commit of a repository's folder, from its record or the hub's cache.

    None for a user's own folder.
    """
    folder = Path(folder)
    record = read_record(folder)
    if record:
        return record["revision"]
    return folder.name if folder.parent.name == "snapshots" else None


def source_files(source: Source, folder: Path | str) -> list[Path]:
    """Return all files of a source in its folder.

    They are ordered by configuration, or by pattern of `files`. Raises InputError for a split that
    is not there, and a pattern that finds no file.
    """
    files: list[Path] = []
    if source.repository:
        for part in _parts(source, [source.split]):
            files += find_split(folder, *part)
        return list(dict.fromkeys(files))
    for pattern in source.files:
        if Path(folder, pattern).is_dir():
            files += saved_files(Path(folder, pattern), "default", source.split)
        names = [pattern]
        if not Path(folder, pattern).is_file():
            names = glob(pattern, root_dir=folder, recursive=True)
        paths = [Path(folder, name) for name in sorted(names, key=natural)]
        matching = [path for path in paths if path.is_file()]
        if not matching and not Path(folder, pattern).is_dir():
            raise InputError(f"source {source.name!r}: no file {Path(folder, pattern)}")
        files += matching
    return list(dict.fromkeys(files))  # patterns may overlap


def download(
    wanted: Iterable[Any], folder: Path | str, *, progress: Progress = quiet
) -> list[Path]:
    """Fetch from the hub, into the mirror `folder`, what the sources and benchmarks `wanted` need.

    Returns the repositories' folders; each repository is fetched once. Optional splits (`also` of a
    benchmark) are fetched too. Raises InputError at the first repository that the hub refuses; a
    second call fetches only the rest.
    """
    revisions: dict[str, str | None] = {}
    parts: dict[str, list[Part]] = {}
    for entry in wanted:
        if not entry.repository:
            continue
        pinned = revisions.setdefault(entry.repository, entry.revision)
        if entry.revision and pinned and entry.revision != pinned:
            raise InputError(
                f"{entry.repository}: wanted at two revisions, {pinned} and {entry.revision}"
            )
        revisions[entry.repository] = pinned or entry.revision
        parts.setdefault(entry.repository, []).extend(_parts(entry, entry.splits))
    folders = []
    for number, repository in enumerate(parts):

        def report(done: float, words: str, number: int = number) -> None:
            progress((number + done) / len(parts), words)

        folders.append(Path(folder) / repository)
        hub.fetch(
            repository,
            folders[-1],
            revision=revisions[repository],
            parts=list(dict.fromkeys(parts[repository])),
            progress=report,
        )
    return folders


def _parts(entry: Any, splits: Sequence[str]) -> list[Part]:
    files = tuple(getattr(entry, "files", ()))
    if files:
        return [Part("default", split, files) for split in splits]
    return [Part(name, split) for name in entry.configurations for split in splits]


def _cached_folder(entry: Any, cache: Path | str) -> Path:
    """Return the folder of `cache` for a repository; a pinned commit has its own."""
    if entry.revision:
        return Path(cache) / f"{entry.repository}@{entry.revision[:12]}"
    return Path(cache) / entry.repository


def _mirror_folders(entry: Any, mirror: Path | str | None) -> list[Path]:
    """List where a repository may be in the mirror: as owner/name, or as in the hub's cache."""
    if not mirror:
        return []
    folders = [Path(mirror) / entry.repository]
    cached = Path(mirror) / f"datasets--{entry.repository.replace('/', '--')}"
    commit = f"{entry.revision}*" if entry.revision else _newest_commit(cached)
    if commit:
        folders += sorted((cached / "snapshots").glob(commit))
    return folders


def _newest_commit(cached: Path) -> str:
    """Return the commit of the branch `main` in a folder of the hub's cache, or ""."""
    reference = cached / "refs" / "main"
    return reference.read_text().strip() if reference.is_file() else ""
