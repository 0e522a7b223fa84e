"""Where a data set lies, which of its files are a split, and how it gets there.

Data are looked for in the mirror first, then in the folder of what was fetched before, then on the hub, which is asked
with a short time limit, so that a machine without a network learns within seconds what to do. `download` fills a folder
that serves as a mirror on a machine without a network. Files are read directly (`read_source`, from
`pipeline.sources.stage`), never through `datasets.load_dataset`, whose cache doubles the disk space and trusts modification
times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Protocol

from pipeline.errors import InputError
from pipeline.progress import quiet
from pipeline.sources import hub
from pipeline.sources.stage import read_source
from pipeline.sources.table import SOURCES, Source

__all__ = ["download", "find_split", "has_splits", "read_source", "repository_folder", "source_files"]


class Wanted(Protocol):
    """A source or a benchmark: the splits of a repository that are to be fetched."""

    @property
    def repository(self) -> str: ...
    @property
    def configurations(self) -> tuple[str, ...]: ...
    @property
    def splits(self) -> tuple[str, ...]: ...
    @property
    def revision(self) -> str | None: ...


def repository_folder(
    repository: str,
    *,
    mirror: Path | str | None,
    cache: Path | str,
    revision: str | None = None,
    configurations: Sequence[str] = (),
    splits: Sequence[str] = (),
    progress: Callable[[float, str], None] = quiet,
) -> Path:
    """The folder of a data set that has all these splits of these configurations.

    Looked for in `<mirror>/<owner>/<name>`, in a hub cache inside the mirror (`datasets--owner--name/snapshots/...`),
    in `cache`; else fetched into `cache` at `revision`. Raises InputError within seconds when there is none of these.
    """
    parts = [(configuration, split) for configuration in configurations for split in splits]
    cached = Path(cache) / (f"{repository}@{revision[:12]}" if revision else repository)
    looked = [*(_mirrored(Path(mirror), repository, revision) if mirror else ()), cached]
    for folder in looked:
        # A folder that was fetched knows what in it is whole; one that somebody filled has what its files say.
        if record := hub.read_record(folder):
            found = hub.is_fetched(record, parts)
        else:
            found = folder != cached and folder.is_dir() and has_splits(folder, parts)
        if found:
            return folder
    try:
        hub.fetch(repository, cached, revision=revision, parts=parts or None, progress=progress)
    except InputError as error:
        name = next((source.name for source in SOURCES.values() if source.repository == repository), "<study>")
        raise InputError(
            f"{error}; nor is it, with {_said(parts)}, in {' or '.join(map(str, looked))}: on a machine with a network "
            f"run `dreamer download {name} --mirror <folder>`, and give that folder as the mirror here"
        ) from error
    return cached


def find_split(folder: Path | str, configuration: str, split: str) -> list[Path]:
    """The files of a split of the data set in `folder`, in reading order (`pipeline.sources.hub.select_files` has the rules).

    Raises InputError naming what there is instead when the folder has no such split.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"{folder}: there is no such folder")
    names, card = _listing(folder)
    found = hub.select_files(names, configuration, split, card)
    if not found:
        raise InputError(
            f"{folder} has no split {split!r} of configuration {configuration!r}; it has {hub.summary(names, card)}"
        )
    return [folder / name for name in found]


def has_splits(folder: Path | str, parts: Iterable[hub.Part]) -> bool:
    """Whether the folder has files for each (configuration, split)."""
    names, card = _listing(Path(folder))
    return all(hub.select_files(names, configuration, split, card) for configuration, split in parts)


def source_files(source: Source, folder: Path | str) -> list[Path]:
    """All files of a source in the folder of its repository, configuration by configuration."""
    return [path for name in source.configurations for path in find_split(folder, name, source.split)]


def download(
    wanted: Iterable[Wanted], folder: Path | str, *, progress: Callable[[float, str], None] = quiet
) -> list[Path]:
    """Fetch everything the sources and benchmarks need from the hub into a mirror, each repository once.

    Returns the repositories' folders. Splits that are only desirable (`also` of a benchmark) count as needed here.
    Raises InputError at the first repository that cannot be had; what was fetched before it stays, and a second call
    fetches only the rest.
    """
    revisions: dict[str, str | None] = {}
    parts: dict[str, list[hub.Part]] = {}
    for entry in wanted:
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


def _mirrored(mirror: Path, repository: str, revision: str | None) -> list[Path]:
    """Where a mirror may hold a repository: as owner/name, or as snapshots in the form of the hub's own cache."""
    snapshots = mirror / f"datasets--{repository.replace('/', '--')}"
    reference = snapshots / "refs" / "main"
    commit = revision or (reference.read_text().strip() if reference.is_file() else None)
    return [mirror / repository, *([snapshots / "snapshots" / commit] if commit else [])]


def _said(parts: Sequence[hub.Part]) -> str:
    named = [f"{configuration}/{split}" for configuration, split in parts]
    return ", ".join(named[:3]) + (f" and {len(named) - 3} more" if len(named) > 3 else "") or "all its files"


def _listing(folder: Path) -> tuple[list[str], hub.Card]:
    names = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
    card = folder / hub.CARD
    return names, hub.card_configurations(card.read_text(errors="replace")) if card.is_file() else {}
