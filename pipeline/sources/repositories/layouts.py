"""Ask the `datasets` library which files the splits of a data set are.

It sees a folder of empty files with the names of the real ones, and the `configs:` of the card: so
a listing of the hub is answered as a folder is, nothing is fetched or opened, and no path leads
out. It is imported only here, where a card or patterns of files are: that takes 1.3 s.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from dreamer_study.pipeline.errors import InputError

CARD = "README.md"
MOST_STARS = 3  # in one part of a path: more take hours to compare with a long name
Splits = Mapping[str, Sequence[str]]  # names of files


class NoSplit(InputError):
    """A data set has no such configuration or split, or not its files."""


class NotInCard(NoSplit):
    """A data set's own list of configurations and splits lacks one, so no other copy has it."""


def splits_of_card(
    names: Iterable[str], header: Mapping[str, Any], configuration: str, split: str, where: object
) -> Splits:
    """Return the splits that a card's header gives a configuration.

    "default" is what `datasets` takes where no configuration is named. Where files of another split
    are not here, `split` alone is asked for. Raises InputError, naming the card as `where`, for a
    configuration that it does not have, a header of another form, and a path that leads out of the
    data set's folder.
    """
    configs = header["configs"]
    for path in _paths(configs):
        check_path(path, f"{where}: its `configs:`")
    if isinstance(configs, list):
        configs = [_plain(entry) if isinstance(entry, dict) else entry for entry in configs]
    named = configurations(header)
    is_default = configuration == "default" and configuration not in named
    if named and not is_default and configuration not in named:
        raise NotInCard(
            f"{where}: it has no configuration {configuration!r}; it has {', '.join(named)}"
        )
    ask = partial(_asked, tuple(names), where=str(where))
    if is_default or not named:
        return ask(card=_card(configs))
    entries = [entry for entry in configs if _name_of(entry) == configuration]
    try:
        return ask(card=_card(entries), configuration=configuration)
    except NoSplit:  # perhaps of another split
        alone = [_with_one_split(entry, split) for entry in entries]
        if alone == entries:
            raise
        return ask(card=_card(alone), configuration=configuration)


def _plain(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Write an entry of `configs:` as `datasets` reads it alone and first.

    It takes no number for a name, and looks for the files of the first entry outside of its
    `data_dir`.
    """
    plain = {**entry, "config_name": _name_of(entry)}
    folder = plain.get("data_dir")
    if isinstance(folder, str) and "data_files" in plain:
        del plain["data_dir"]
        plain["data_files"] = _in_folder(folder.rstrip("/"), plain["data_files"])
    return plain


def _in_folder(folder: str, files: Any) -> Any:
    if isinstance(files, str):
        return f"{folder}/{files}"
    if isinstance(files, list):
        return [_in_folder(folder, file) for file in files]
    if isinstance(files, dict) and "path" in files:
        return {**files, "path": _in_folder(folder, files["path"])}
    return files


def _card(configs: Any) -> str:
    return yaml.safe_dump({"configs": configs}, allow_unicode=True)


def _with_one_split(entry: Mapping[str, Any], split: str) -> Mapping[str, Any]:
    """Leave out what an entry of `configs:` says of other splits."""
    files = entry.get("data_files")
    if not isinstance(files, list) or not all(isinstance(item, dict) for item in files):
        return entry
    of_split = [item for item in files if str(item.get("split")) == split]
    return {**entry, "data_files": of_split or files}


def splits_of_names(names: Iterable[str], where: object) -> Splits:
    """Return the splits that names of files and folders give, without a card; none of no files."""
    names = tuple(names)
    return _asked(names, where=str(where)) if names else {}


def files_of_patterns(
    names: Iterable[str], patterns: Sequence[str], split: str, where: object
) -> Sequence[str]:
    """Return the files that match patterns. Raises InputError for a pattern without any."""
    for pattern in patterns:
        check_path(pattern, f"{where}: files")
    return _asked(tuple(names), patterns=tuple(patterns), split=split, where=str(where))[split]


def configurations(header: Mapping[str, Any]) -> list[str]:
    """List the configurations that a card's header names."""
    configs = header.get("configs")
    if not isinstance(configs, list):
        return []
    return [_name_of(entry) for entry in configs if isinstance(entry, dict)]


def _name_of(entry: Any) -> str:
    return str(entry.get("config_name", "default")) if isinstance(entry, dict) else ""


def check_path(path: str, where: object) -> None:
    """Raise InputError for a path that leads out of a folder, and for a pattern of many stars."""
    if path.startswith(("/", "~")) or "::" in path or "://" in path or ".." in path.split("/"):
        raise InputError(f"{where} name {path!r}, which is not in the data set's folder")
    deep = path.count("**")
    if deep > 2 or any(part.count("*") > MOST_STARS for part in path.split("/")):
        raise InputError(f"{where} name {path!r}, which has too many stars; name the files")


def _paths(configs: Any) -> list[str]:
    """List the paths and patterns of a card's `configs:`, whatever their form."""
    if isinstance(configs, str):
        return [configs]
    if isinstance(configs, list):
        return [path for entry in configs for path in _paths(entry)]
    if isinstance(configs, dict):
        other = ("config_name", "split")
        return [
            path for key, value in configs.items() if key not in other for path in _paths(value)
        ]
    return []


@lru_cache(maxsize=256)
def _asked(
    names: tuple[str, ...],
    *,
    card: str = "",
    configuration: str | None = None,
    patterns: tuple[str, ...] = (),
    split: str = "",
    where: str,
) -> Splits:
    """Ask `datasets`. The answer is kept: a plan asks for the same folder several times."""
    from datasets import load_dataset_builder

    with TemporaryDirectory() as temporary:
        folder = Path(temporary).resolve() / "data"
        folder.mkdir()
        for name in names:
            path = folder / name
            if path.resolve().is_relative_to(folder) and name != CARD:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch()
        if card:
            (folder / CARD).write_text(f"---\n{card}---\n", encoding="utf-8")
        files = {split: list(patterns)} if patterns else None
        try:
            builder = load_dataset_builder(
                str(folder), configuration, data_files=files, cache_dir=temporary
            )
        except Exception as error:  # it raises errors of several kinds, of several lines
            if isinstance(error, FileNotFoundError):
                named = ", ".join(patterns) or "what it names"
                raise NoSplit(f"{where}: there are no files of {named}") from error
            reason = str(error).replace(f"{folder}/", "").replace(str(folder), "the folder")
            lines = [line.strip() for line in reason.splitlines() if line.strip()]
            said = re.sub(r"\s+", " ", " ".join(lines[:2])) or type(error).__name__
            raise InputError(f"{where}: {said[:300]}") from error
        found = builder.config.data_files or {}
        return {str(name): [_inside(path, folder, where) for path in found[name]] for name in found}


def _inside(path: str, folder: Path, where: str) -> str:
    if not Path(path).is_relative_to(folder):
        raise InputError(f"{where}: {path!r} is not in the data set's folder")
    return Path(path).relative_to(folder).as_posix()
