"""Find the folder of a data set: in the mirror, in what was fetched before, or on the hub.

The hub is asked with a short time limit: a machine without a network learns within seconds what to
do. `download` fills a mirror for such machines. `datasets.load_dataset` is not used: its cache
doubles the disk space and trusts modification times.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from glob import glob
from pathlib import Path
from typing import Any

from dreamer_study.pipeline.errors import BrokenDownload, InputError
from dreamer_study.pipeline.sources.repositories import hub
from dreamer_study.pipeline.sources.repositories.splits import Part, find_split, has_splits, natural
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
    """Find the folder with these splits of a source's or benchmark's data, without the hub; None
    where there is none.

    Looks in `<mirror>/<owner>/<name>`, in a hub cache inside the mirror
    (`datasets--owner--name/snapshots/...`) and in
    `cache`; `files` lie `beside` the study file. Raises InputError when the mirror was fetched at
    another commit than the entry's.
    """
    if getattr(entry, "files", ()):
        return beside
    parts = _parts(entry, splits)
    *_, cached = looked = _places(entry, mirror, cache)
    for folder in looked:
        # The record of a fetched folder tells what is complete; of a folder that a user filled, its
        # files tell.
        if record := hub.read_record(folder):
            if entry.revision and not record["revision"].startswith(entry.revision):
                raise InputError(
                    f"{folder} holds {entry.repository} at {record['revision'][:12]}, and"
                    f" {entry.revision[:12]} is pinned: fetch that commit into another mirror, or"
                    " give the source of the study the `revision` of the mirror"
                )
            found = hub.is_fetched(record, parts)
        else:
            found = folder != cached and folder.is_dir() and has_splits(folder, parts)
        if found:
            return folder
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
    if found := folder_of(entry, splits, mirror=mirror, cache=cache):
        return found
    parts = _parts(entry, splits)
    *_, cached = looked = _places(entry, mirror, cache)
    try:
        hub.fetch(entry.repository, cached, revision=entry.revision, parts=parts, progress=progress)
    except BrokenDownload:
        raise
    except InputError as error:
        named = [f"{configuration}/{split}" for configuration, split in parts]
        words = ", ".join(named[:3]) + (f" and {len(named) - 3} more" if len(named) > 3 else "")
        raise Absent(
            f"{error}; nor is it, with {words}, in {' or '.join(map(str, looked))}: on a machine"
            f" with a network run `dreamer download {study} --mirror <folder>`, and give that"
            " folder as the mirror here"
        ) from error
    return cached


def resolved_revision(folder: Path | str) -> str | None:
    """Return the commit of a repository's folder, from its record or the hub's cache; None for a
    user's own folder."""
    folder = Path(folder)
    if record := hub.read_record(folder):
        return record["revision"]
    return folder.name if folder.parent.name == "snapshots" else None


def source_files(source: Source, folder: Path | str) -> list[Path]:
    """Return all files of a source in its folder: configuration by configuration, or pattern by
    pattern of `files`.

    Raises InputError for a split that is not there, and a pattern that finds no file.
    """
    if not source.files:
        return [
            path
            for name in source.configurations
            for path in find_split(folder, name, source.split)
        ]
    found = []
    for pattern in source.files:
        names = (
            [pattern]
            if Path(folder, pattern).is_file()
            else glob(pattern, root_dir=folder, recursive=True)
        )
        paths = [Path(folder, name) for name in sorted(names, key=natural)]
        if not any(path.is_file() for path in paths):
            raise InputError(f"source {source.name!r}: no file {Path(folder, pattern)}")
        found += [path for path in paths if path.is_file()]
    return list(dict.fromkeys(found))  # patterns may overlap


def download(
    wanted: Iterable[Any], folder: Path | str, *, progress: Progress = quiet
) -> list[Path]:
    """Fetch from the hub, into the mirror `folder`, every split that the sources and benchmarks
    `wanted` need.

    Returns the repositories' folders; each repository is fetched once. Optional splits (`also` of a
    benchmark) are fetched too. Raises InputError at the first repository that the hub refuses; a
    second call fetches only the rest.
    """
    revisions: dict[str, str | None] = {}
    parts: dict[str, list[Part]] = {}
    for entry in (entry for entry in wanted if entry.repository):
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
        found = list(dict.fromkeys(parts[repository]))
        hub.fetch(
            repository, folders[-1], revision=revisions[repository], parts=found, progress=report
        )
    return folders


def _parts(entry: Any, splits: Sequence[str]) -> list[Part]:
    return [(configuration, split) for configuration in entry.configurations for split in splits]


def _places(entry: Any, mirror: Path | str | None, cache: Path | str) -> list[Path]:
    """List where a repository may be: in the mirror, as owner/name or as in the hub's cache, at the
    end in `cache`."""
    repository, revision = entry.repository, entry.revision
    places = [Path(cache) / (f"{repository}@{revision[:12]}" if revision else repository)]
    if mirror:
        snapshots = Path(mirror) / f"datasets--{repository.replace('/', '--')}"
        reference = snapshots / "refs" / "main"
        commit = (
            f"{revision}*"
            if revision
            else reference.read_text().strip()
            if reference.is_file()
            else ""
        )
        places[:0] = sorted((snapshots / "snapshots").glob(commit)) if commit else []
        places.insert(0, Path(mirror) / repository)
    return places
