"""Find the files of a split, in a listing of the hub or in a folder.

File names and the card's `configs:` decide, nothing else: no script of a repository is run.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import yaml
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.sources.files.readers import KINDS, is_data
from dreamer_study.pipeline.sources.files.text_files import kind_of_file

CARD = "README.md"
METADATA = (
    "config.json",
    "dataset_info.json",
    "dataset_infos.json",
    "dataset_dict.json",
    "state.json",
)

Part = tuple[str, str]  # a configuration and a split
# Patterns of file names by configuration and split.
Card = Mapping[str, Mapping[str, Sequence[str]]]

_SPLIT_WORD = re.compile(
    r"(^|[^a-z])(train|training|test|testing|val|valid|validation|dev|eval)([^a-z]|$)"
)


class _Files(BaseModel):
    """The files of one split, in a card's header."""

    model_config = ConfigDict(coerce_numbers_to_str=True)
    split: str
    path: str | list[str]


class _Configuration(BaseModel):
    """One entry of `configs:` in a card's header."""

    model_config = ConfigDict(coerce_numbers_to_str=True)
    config_name: str = "default"
    data_dir: str | None = None
    data_files: str | list[str | _Files] | None = None


_CONFIGURATIONS = TypeAdapter(list[_Configuration] | None)


def card_configurations(text: str, where: object = CARD) -> dict[str, dict[str, list[str]]]:
    """Read the `configs:` of a data set card: file patterns by configuration and split.

    Empty without `configs:`. Raises InputError, naming the card as `where`, when its header is not
    YAML, its `configs:` have another form, or a path leads out of the data set's folder (absolute,
    with `..`, a URL).
    """
    header, _ = parse_card(text, where)
    try:
        entries = _CONFIGURATIONS.validate_python(header.get("configs"))
    except ValidationError as error:
        numbers = [part + 1 for part in error.errors()[0]["loc"] if isinstance(part, int)]
        entry_number = f" (entry {numbers[0]})" if numbers else ""
        raise InputError(
            f"{where}: its `configs:` must be a list of entries with `config_name` and"
            " `data_files`: a text, or a list of texts or of entries with `split` and"
            f" `path`{entry_number}"
        ) from None
    return {entry.config_name: _patterns_by_split(entry, where) for entry in entries or []}


def _patterns_by_split(entry: _Configuration, where: object) -> dict[str, list[str]]:
    """List the file patterns of each split; plain texts are of the split "train"."""
    folder = f"{entry.data_dir.rstrip('/')}/" if entry.data_dir else ""
    files = entry.data_files or []
    splits: dict[str, list[str]] = {}
    for item in _as_list(files):
        split = "train" if isinstance(item, str) else item.split
        paths = _as_list(item if isinstance(item, str) else item.path)
        splits.setdefault(split, []).extend(_inside(folder + path, where) for path in paths)
    return splits


def _as_list(value: Any) -> list[Any]:
    return [value] if isinstance(value, str) else value


def select_files(names: Iterable[str], configuration: str, split: str, card: Card) -> list[str]:
    """Select a split's files among the file `names` of a repository, in reading order.

    A card that names the split decides. Else the first of these that matches:
    `<configuration>/<split>.*`, `<configuration>/<split>/**`, `<configuration>/<split>-*`; for the
    configuration "default", these patterns in `data/` and at the top. Then, for the split "train",
    all data files of these folders, if none has a split in its name. Of several formats only the
    first in `is_data` is taken, so that no row is read twice. Empty without such a split.
    """
    data = data_files(names)
    in_card = _in_card(data, configuration, split, card)
    return in_card or _one_format(_by_name(data, configuration, split))


def _in_card(data: Sequence[str], configuration: str, split: str, card: Card) -> list[str]:
    """Select the files that the card makes a split."""
    matching = set()
    for pattern in card.get(configuration, {}).get(split, []):
        matching.update(_matching(data, pattern))
    return [name for name in data if name in matching]


def _by_name(data: Sequence[str], configuration: str, split: str) -> list[str]:
    """Select the files, of all formats, that their own names make a split."""
    folders = [f"{configuration}/"]
    if configuration == "default":
        folders += ["data/", ""]
    for folder in folders:
        for pattern in (f"{folder}{split}.*", f"{folder}{split}/**", f"{folder}{split}-*"):
            files = _matching(data, pattern)
            if files:
                return files
    if split != "train":
        return []
    for folder in folders:
        files = _matching(data, f"{folder}*")
        if files and not any(map(_names_a_split, files)):
            return files
    return []


def _names_a_split(name: str) -> bool:
    return bool(_SPLIT_WORD.search(name.rpartition("/")[2].lower()))


def data_files(names: Iterable[str]) -> list[str]:
    """Select the names of data files, in natural order: part_2 before part_10."""
    data = (name for name in names if is_data(name) and "/." not in f"/{name}")
    return sorted((name for name in data if name.rpartition("/")[2] not in METADATA), key=natural)


def find_split(folder: Path | str, configuration: str, split: str) -> list[Path]:
    """Return the files of a split of the data set in `folder`, as `select_files` orders them.

    Training, decontamination and evaluation read this list. Links are followed wherever they lead,
    as the hub's cache needs: who fills a mirror makes them, a card cannot.

    Raises InputError, naming the splits there are, when the folder has no such split, and when the
    split has files of several formats: perhaps the rows of one are those of another.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"{folder}: there is no such folder")
    names, card = _listing(folder)
    data = data_files(names)
    in_card = _in_card(data, configuration, split, card)
    if in_card:
        return [folder / name for name in in_card]
    of_all_formats = _by_name(data, configuration, split)
    files = _one_format(of_all_formats)
    others = [name for name in of_all_formats if name not in files]
    if others:
        raise InputError(
            f"{folder}: split {split!r} of configuration {configuration!r} has files of several"
            f" formats, such as {files[0]} and {others[0]}; remove one format, or name the files of"
            " the split in the card's `configs:`"
        )
    if not files:
        raise InputError(
            f"{folder} has no split {split!r} of configuration {configuration!r}; it has"
            f" {summary(names, card)}"
        )
    return [folder / name for name in files]


def has_splits(folder: Path | str, parts: Iterable[Part]) -> bool:
    """Tell whether the folder has files for each (configuration, split)."""
    names, card = _listing(Path(folder))
    return all(select_files(names, configuration, split, card) for configuration, split in parts)


def summary(names: Iterable[str], card: Card) -> str:
    """List at most 20 splits that the card names, or else data files, for an error message."""
    choices = data_files(names)
    if card:
        choices = [f"{name}/{split}" for name, splits in card.items() for split in splits]
    if not choices:
        return "no data files"
    text = ", ".join(choices[:20])
    return f"{text} and {len(choices) - 20} more" if len(choices) > 20 else text


def _listing(folder: Path) -> tuple[list[str], Card]:
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
    text = card.read_text(errors="replace") if card.is_file() else ""
    return names, card_configurations(text, card)


def parse_card(text: str, where: object = CARD) -> tuple[dict[str, Any], str]:
    """Split a card into its YAML header, between two lines of three dashes, and the rest.

    Without a header both are empty.
    """
    card = re.match(r"\ufeff?---\s*\n(.*?)^---\s*$\n?(.*)", text, re.DOTALL | re.MULTILINE)
    if card is None:
        return {}, ""
    try:
        header = yaml.safe_load(card[1])
    except yaml.YAMLError as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{where}: its header is not YAML ({reason})") from error
    return header if isinstance(header, dict) else {}, card[2]


def _one_format(names: list[str]) -> list[str]:
    for suffix in KINDS:
        files = [name for name in names if kind_of_file(name) == suffix]
        if files:
            return files
    return []


def natural(name: str) -> list[tuple[bool, int, str]]:
    """Return a sorting key under which part_2 comes before part_10."""
    key = []
    for part in re.split(r"(\d+)", name):
        if part:
            is_number = part.isdigit()
            key.append((not is_number, int(part) if is_number else 0, part))
    return key


def _matching(names: Sequence[str], pattern: str) -> list[str]:
    """Select the names that match a file pattern.

    In a pattern `*` and `?` stay within a folder and `**` does not. RE2 takes time in proportion to
    the names, however many stars a pattern has.
    """
    wildcards = {"**": ".*", "**/": "(?:.*/)?", "*": "[^/]*", "?": "[^/]"}
    parts = re.split(r"(\*\*/?|\*|\?)", pattern.removeprefix("./"))
    expression = "".join(wildcards.get(part, re.escape(part)) for part in parts)
    matches = pc.match_substring_regex(pa.array(names, pa.string()), f"^(?s:{expression})$")
    return pa.array(names, pa.string()).filter(matches).to_pylist()


def _inside(path: str, where: object) -> str:
    """Return a path of a card. Raises InputError for one that leads out of the folder."""
    if path.startswith("/") or "://" in path or ".." in path.split("/"):
        raise InputError(
            f"{where}: its `configs:` name {path!r}, which is not in the data set's folder"
        )
    return path
