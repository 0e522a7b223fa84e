"""Find the folder of a data set: in the mirror, in what was fetched before, or on the hub.

The hub is asked with a short time limit: a machine without a network learns within seconds what to do. `download`
fills a mirror for such machines. `datasets.load_dataset` is not used: its cache doubles the disk space and trusts
modification times.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from glob import glob
from pathlib import Path
from typing import Any

from pipeline.errors import InputError
from pipeline.progress import Progress, quiet
from pipeline.sources.repositories import hub
from pipeline.sources.repositories.splits import Part, find_split, has_splits, natural
from pipeline.sources.source import Source


class Absent(InputError):
    """A data set is in none of the folders, and the hub does not give it."""


def repository_folder(
    repository: str,
    *,
    mirror: Path | str | None,
    cache: Path | str,
    revision: str | None = None,
    configurations: Sequence[str],
    splits: Sequence[str],
    study: str = "STUDY",
    progress: Progress = quiet,
) -> Path:
    """Find or fetch the folder of a data set that has all these splits of these configurations.

    Looks where `find_folder` looks; else fetches into `cache` at `revision`. Raises Absent within seconds when neither
    has them, with the command that fetches all data sets of `study`.
    """
    parts = [(configuration, split) for configuration in configurations for split in splits]
    if found := find_folder(repository, parts, mirror=mirror, cache=cache, revision=revision):
        return found
    *_, cached = looked = _places(repository, mirror, cache, revision)
    try:
        hub.fetch(repository, cached, revision=revision, parts=parts, progress=progress)
    except InputError as error:
        raise Absent(
            f"{error}; nor is it, with {_words(parts)}, in {' or '.join(map(str, looked))}: on a machine with a "
            f"network run `dreamer download {study} --mirror <folder>`, and give that folder as the mirror here"
        ) from error
    return cached


def find_folder(
    repository: str,
    parts: Sequence[Part],
    *,
    mirror: Path | str | None,
    cache: Path | str,
    revision: str | None = None,
) -> Path | None:
    """Find the folder of a data set that has all these parts, without the hub; None where there is none.

    Looks in `<mirror>/<owner>/<name>`, in a hub cache inside the mirror (`datasets--owner--name/snapshots/...`) and in
    `cache`. Raises InputError when the mirror was fetched at another commit than `revision`.
    """
    *_, cached = looked = _places(repository, mirror, cache, revision)
    for folder in looked:
        # The record of a fetched folder tells what is complete; of a folder that a user filled, its files tell.
        if record := hub.read_record(folder):
            if revision and not record["revision"].startswith(revision):
                raise InputError(
                    f"{folder} holds {repository} at {record['revision'][:12]}, and {revision[:12]} is pinned: fetch "
                    "that commit into another mirror, or give the source of the study the `revision` of the mirror"
                )
            found = hub.is_fetched(record, parts)
        else:
            found = folder != cached and folder.is_dir() and has_splits(folder, parts)
        if found:
            return folder
    return None


def folder_of(
    entry: Any, splits: Sequence[str], *, mirror: Path | str | None, cache: Path | str, beside: Path
) -> Path | None:
    """Find the folder of a source's or benchmark's data as `find_folder` does; `files` lie `beside` the study file."""
    if getattr(entry, "files", ()):
        return beside
    parts = [(configuration, split) for configuration in entry.configurations for split in splits]
    return find_folder(entry.repository, parts, mirror=mirror, cache=cache, revision=entry.revision)


def resolved_revision(folder: Path | str) -> str | None:
    """Return the commit of a repository's folder, from its record or the hub's cache; None for a user's own folder."""
    folder = Path(folder)
    if record := hub.read_record(folder):
        return record["revision"]
    return folder.name if folder.parent.name == "snapshots" else None


def source_files(source: Source, folder: Path | str) -> list[Path]:
    """Return all files of a source in its folder: configuration by configuration, or pattern by pattern of `files`.

    Raises InputError for a split that is not there, and a pattern that finds no file.
    """
    if source.files:
        return [path for pattern in source.files for path in _named_files(source.name, Path(folder), pattern)]
    return [path for name in source.configurations for path in find_split(folder, name, source.split)]


def download(wanted: Iterable[Any], folder: Path | str, *, progress: Progress = quiet) -> list[Path]:
    """Fetch from the hub, into the mirror `folder`, every split that the sources and benchmarks `wanted` need.

    Returns the repositories' folders; each repository is fetched once. Optional splits (`also` of a benchmark) are
    fetched too. Raises InputError at the first repository that the hub refuses; a second call fetches only the rest.
    """
    revisions: dict[str, str | None] = {}
    parts: dict[str, list[Part]] = {}
    for entry in (entry for entry in wanted if entry.repository):
        pinned = revisions.setdefault(entry.repository, entry.revision)
        if entry.revision and pinned and entry.revision != pinned:
            raise InputError(f"{entry.repository}: wanted at two revisions, {pinned} and {entry.revision}")
        revisions[entry.repository] = pinned or entry.revision
        parts.setdefault(entry.repository, []).extend((c, s) for c in entry.configurations for s in entry.splits)
    folders = []
    for number, repository in enumerate(parts):

        def report(done: float, words: str, number: int = number) -> None:
            progress((number + done) / len(parts), words)

        folders.append(Path(folder) / repository)
        found = list(dict.fromkeys(parts[repository]))
        hub.fetch(repository, folders[-1], revision=revisions[repository], parts=found, progress=report)
    return folders


def _named_files(source: str, folder: Path, pattern: str) -> list[Path]:
    names = sorted(glob(pattern, root_dir=folder, recursive=True), key=natural)
    found = [folder / name for name in names if (folder / name).is_file()]
    if not found:
        raise InputError(f"source {source!r}: no file {folder / pattern}")
    return found


def _places(repository: str, mirror: Path | str | None, cache: Path | str, revision: str | None) -> list[Path]:
    """List where a repository may be: in the mirror, and at the end in the cache."""
    mirrored = _mirrored(Path(mirror), repository, revision) if mirror else []
    return [*mirrored, _cached(Path(cache), repository, revision)]


def _cached(cache: Path, repository: str, revision: str | None) -> Path:
    return cache / (f"{repository}@{revision[:12]}" if revision else repository)


def _mirrored(mirror: Path, repository: str, revision: str | None) -> list[Path]:
    """List where a mirror may hold a repository: as owner/name, or as a snapshot in the layout of the hub's cache."""
    snapshots = mirror / f"datasets--{repository.replace('/', '--')}"
    reference = snapshots / "refs" / "main"
    commit = revision or (reference.read_text().strip() if reference.is_file() else None)
    return [mirror / repository, *([snapshots / "snapshots" / commit] if commit else [])]


def _words(parts: Sequence[Part]) -> str:
    named = [f"{configuration}/{split}" for configuration, split in parts]
    return ", ".join(named[:3]) + (f" and {len(named) - 3} more" if len(named) > 3 else "")
