"""Find the files of a split, in a listing of the hub or in a folder.

What was fetched has a record, which names them. Else the card's `configs:` decide as the `datasets`
library reads them (`layouts.py`), and without them the layout of a mirror:
`<configuration>/<split>.*`. No script of a repository is run.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import yaml
from pydantic import BaseModel, Field, ValidationError

from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.plain_yaml import load_plain
from dreamer_study.pipeline.settings import one_line
from dreamer_study.pipeline.sources.files.readers import KINDS, is_data
from dreamer_study.pipeline.sources.files.text_files import kind_of_file
from dreamer_study.pipeline.sources.repositories.layouts import (
    CARD,
    NoSplit,
    NotInCard,
    check_path,
    configurations,
    files_of_patterns,
    splits_of_card,
    splits_of_names,
)

RECORD = ".download.json"
METADATA = (
    "config.json",
    "dataset_info.json",
    "dataset_infos.json",
    "dataset_dict.json",
    "state.json",
)


class Part(NamedTuple):
    """A configuration and a split of a data set, or the patterns of `files` that make a split."""

    configuration: str
    split: str
    patterns: tuple[str, ...] = ()


def select_files(names: Iterable[str], part: Part, card: str, where: object) -> list[str]:
    """Select a part's files among the file `names` of a repository, in reading order.

    Patterns decide, then a `card` with `configs:`. Else the first of these that has files:
    `<configuration>/<split>.*`, `<configuration>/<split>/**` and `<configuration>/<split>-*`; what
    `datasets` finds by the names in the folder of the configuration, or for "default" in all;
    `<split>.*` and `data/<split>.*`. Raises InputError, naming the splits that there are, without
    such files, and when the split has files of several formats: perhaps the rows of one are those
    of another.
    """
    names = [name for name in names if "/." not in f"/{name}"]
    header, _ = parse_card(card, f"{where}/{CARD}")
    if part.patterns:
        found = files_of_patterns(names, part.patterns, part.split, where)
    elif header.get("configs"):
        card_path = f"{where}/{CARD}"
        splits = splits_of_card(names, header, part.configuration, part.split, card_path)
        found = splits.get(part.split, [])
    else:
        found = _by_name(data_files(names), part, where)
    if not found:
        kind = NotInCard if header.get("configs") and not part.patterns else NoSplit
        raise kind(
            f"{where} has no split {part.split!r} of configuration {part.configuration!r}; it has"
            f" {_summary(names, header, where)}"
        )
    return sorted(found, key=natural)


def _by_name(data: Sequence[str], part: Part, where: object) -> Sequence[str]:
    """Select the files that their own names make a split."""
    folder = f"{part.configuration}/"
    inside = [name.removeprefix(folder) for name in data if name.startswith(folder)]
    found = [folder + name for name in inside if _is_of(name, part.split)]
    if found:
        return _one_format(found, part.split, where)
    if inside:
        return [folder + name for name in splits_of_names(inside, where).get(part.split, [])]
    if part.configuration != "default":
        return []
    found = list(splits_of_names(data, where).get(part.split, []))
    exact = [
        name for name in data if re.fullmatch(rf"(data/)?{re.escape(part.split)}\.[^/]*", name)
    ]
    # Of one split in two formats, `datasets` reads the files of the more usual one.
    stems = {_stem(name) for name in found}
    others = [name for name in data if name not in found and _stem(name) in stems]
    return _one_format([*found, *others] or exact, part.split, where)


def _is_of(name: str, split: str) -> bool:
    """Tell whether a name in a configuration's folder is exactly that of a split."""
    return name.startswith((f"{split}.", f"{split}/")) or (
        name.startswith(f"{split}-") and "/" not in name
    )


def _stem(name: str) -> str:
    return name.lower().rpartition(f".{kind_of_file(name)}")[0]


def _one_format(names: list[str], split: str, where: object) -> list[str]:
    """Raise InputError for files of several formats."""
    by_kind = {kind_of_file(name): name for name in reversed(names)}
    if len(by_kind) > 1:
        first, other, *_ = sorted(
            by_kind.values(), key=lambda name: KINDS.index(kind_of_file(name))
        )
        raise InputError(
            f"{where}: split {split!r} has files of several formats, such as {first} and {other};"
            " remove one format, or name the files of the split in the card's `configs:`"
        )
    return names


def data_files(names: Iterable[str]) -> list[str]:
    """Select the names of data files, in natural order: part_2 before part_10."""
    data = (name for name in names if is_data(name) and "/." not in f"/{name}")
    return sorted((name for name in data if name.rpartition("/")[2] not in METADATA), key=natural)


def find_split(
    folder: Path | str, configuration: str, split: str, patterns: tuple[str, ...] = ()
) -> list[Path]:
    """Return the files of a split of the data set in `folder`, as `select_files` orders them.

    Training, decontamination and evaluation read this list. Links are followed wherever they lead,
    as the hub's cache needs: who fills a mirror makes them, a card cannot. Raises InputError as
    `select_files` does, and for a recorded file that is not there.
    """
    folder = Path(folder)
    part = Part(configuration, split, patterns)
    if not folder.is_dir():
        raise InputError(f"{folder}: there is no such folder")
    recorded = recorded_parts(read_record(folder)).get(part)
    if recorded:
        for name in recorded:
            check_path(name, f"{folder / RECORD}: files")
            if not (folder / name).is_file():
                raise InputError(f"{folder / name}: it was fetched, and is gone; fetch it again")
        return [folder / name for name in recorded]
    saved = [] if patterns else saved_files(folder, configuration, split)
    if saved:
        return saved
    names, card = _listing(folder)
    return [folder / name for name in select_files(names, part, card, folder)]


def has_splits(folder: Path | str, parts: Iterable[Sequence[Any]]) -> bool:
    """Tell whether the folder has files for each part.

    Raises InputError for a folder that cannot be read as it is: a broken card, a lost link.
    """
    return missing_split(folder, parts) is None


def missing_split(folder: Path | str, parts: Iterable[Sequence[Any]]) -> NoSplit | None:
    """Return the error of the first part that a folder lacks; NotInCard where its card has others.

    Raises InputError for a folder that cannot be read as it is: a broken card, a lost link.
    """
    try:
        for part in parts:
            find_split(folder, *part)
    except NoSplit as error:
        return error
    return None


def saved_files(folder: Path, configuration: str, split: str) -> list[Path]:
    """Return the files of a split that `save_to_disk` of `datasets` has written; [] for others.

    Raises InputError for a split that was not saved.
    """
    for place in (folder / configuration, folder):
        if (place / "dataset_dict.json").is_file():
            splits = _saved(_Splits, place / "dataset_dict.json").splits
            if split not in splits:
                raise NotInCard(f"{place} has no split {split!r}; it has {', '.join(splits)}")
            place = place / split
        if (place / "state.json").is_file():
            state = _saved(_State, place / "state.json")
            names = [entry.filename for entry in state.data_files]
            for name in names:
                check_path(name, f"{place}/state.json: _data_files")
            return [place / name for name in names]
    return []


class _Splits(BaseModel, strict=True):
    """What `save_to_disk` writes beside the folders of splits."""

    splits: list[str]


class _File(BaseModel, strict=True):
    filename: str


class _State(BaseModel, strict=True):
    """What `save_to_disk` writes into the folder of a split."""

    data_files: list[_File] = Field([], alias="_data_files")


Saved = TypeVar("Saved", bound=BaseModel)


def _saved(kind: type[Saved], path: Path) -> Saved:
    try:
        return kind.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise InputError(
            f"{path} is damaged ({one_line(error)}); save the data set again"
        ) from None


def read_record(folder: Path) -> dict[str, Any]:
    """Read what `fetch` has completed in the folder; empty if it never began there.

    Raises InputError for a damaged record.
    """
    path = folder / RECORD
    if not path.exists():
        return {}
    try:
        _Record.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise InputError(
            f"{path} is damaged ({one_line(error)}); remove that file and fetch the data set again"
            " (`dreamer download`, or a run with a network): what is there is not fetched again"
        ) from None
    return json.loads(path.read_bytes())


class _Entry(BaseModel, strict=True):
    """The files of a part that was fetched whole."""

    configuration: str
    split: str
    files: list[str]
    patterns: list[str] = []


class _Record(BaseModel, strict=True):
    """What `.download.json` holds."""

    repository: str = ""
    revision: str
    parts: list[_Entry]


def recorded_parts(record: dict[str, Any]) -> dict[Part, list[str]]:
    """Return the files of the parts that a record names."""
    parts = {}
    for entry in record.get("parts", ()):
        patterns = tuple(entry.get("patterns", ()))
        parts[Part(entry["configuration"], entry["split"], patterns)] = entry["files"]
    return parts


def _summary(names: Sequence[str], header: dict[str, Any], where: object) -> str:
    """List at most 20 splits that there are, or else data files, for an error message."""
    choices = []
    for name in configurations(header):
        with suppress(InputError):
            splits = splits_of_card(names, header, name, "", where)
            choices += [f"{name}/{split}" for split in splits]
    if not choices:
        choices = data_files(names)
    if not choices:
        return "no data files"
    text = ", ".join(choices[:20])
    return f"{text} and {len(choices) - 20} more" if len(choices) > 20 else text


def _listing(folder: Path) -> tuple[list[str], str]:
    """List the files of a folder, as the hub lists those of a repository, and read its card."""
    names = []
    seen = set()
    for parent, folders, files in os.walk(folder, followlinks=True):
        real = os.path.realpath(parent)
        if real in seen:  # a link to a folder above
            folders.clear()
            continue
        seen.add(real)
        for name in files:
            path = Path(parent, name)
            if not path.exists() and is_data(name):
                raise InputError(
                    f"{path}: a link to {os.readlink(path)}, which is not there; fetch the file"
                    " again"
                )
            names.append(path.relative_to(folder).as_posix())
    card = folder / CARD
    return sorted(names), card.read_text(errors="replace") if card.is_file() else ""


def parse_card(text: str, where: object = CARD) -> tuple[dict[str, Any], str]:
    """Split a card into its YAML header, between two lines of three dashes, and the rest.

    Without a header both are empty.
    """
    card = re.match(r"\ufeff?---\s*\n(.*?)^---\s*$\n?(.*)", text, re.DOTALL | re.MULTILINE)
    if card is None:
        return {}, ""
    try:
        header = load_plain(card[1])
    except (yaml.YAMLError, ValueError) as error:  # ValueError: of a date or a number
        reason = str(error).splitlines()[0]
        raise InputError(f"{where}: its header is not YAML ({reason})") from error
    return header if isinstance(header, dict) else {}, card[2]


def natural(name: str) -> list[tuple[bool, int, str]]:
    """Return a sorting key under which part_2 comes before part_10."""
    key = []
    for part in re.split(r"(\d+)", name):
        if part:
            is_number = part.isdigit()
            key.append((not is_number, int(part) if is_number else 0, part))
    return key
