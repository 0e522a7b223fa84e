"""Data set repositories: which of their files make up a split, and how they are fetched from the hub.

`select_files` answers the first question from file names and the card's `configs:` header alone, so that a listing of
the hub and a folder on disk are read by one rule. `fetch` turns part of a repository into a folder that this project,
`datasets.load_dataset(<folder>, <configuration>)` and lm-eval read alike: the data files, and a card whose header names
exactly the files that are there. Scripts of a repository are neither fetched nor run.
"""

from __future__ import annotations

import fcntl
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import yaml

from pipeline.errors import InputError
from pipeline.sources.readers import SUFFIXES
from pipeline.storage.files import write_text_atomically

CARD = "README.md"
RECORD = ".download.json"
METADATA = ("config.json", "dataset_info.json", "dataset_infos.json", "dataset_dict.json", "state.json")
TIMEOUT_SECONDS = 5
PARALLEL_FILES = 4

Part = tuple[str, str]  # a configuration and a split
Card = Mapping[str, Mapping[str, Sequence[str]]]  # patterns of file names by configuration and split

_SPLIT_WORD = re.compile(r"(^|[^a-z])(train|training|test|testing|val|valid|validation|dev|eval)([^a-z]|$)")
_TOKEN = re.compile(r"hf_\w+")


def card_configurations(text: str) -> dict[str, dict[str, list[str]]]:
    """The `configs:` of a data set card: file patterns by configuration and split; empty when it has none.

    Raises InputError when the card's header is not YAML.
    """
    found: dict[str, dict[str, list[str]]] = {}
    for entry in _header(text).get("configs") or []:
        splits: dict[str, list[str]] = {}
        files = entry.get("data_files") or []
        for item in [files] if isinstance(files, str) else files:
            split, path = ("train", item) if isinstance(item, str) else (str(item["split"]), item["path"])
            folder = f"{entry['data_dir'].rstrip('/')}/" if entry.get("data_dir") else ""
            splits.setdefault(split, []).extend(folder + p for p in ([path] if isinstance(path, str) else path))
        found[str(entry.get("config_name", "default"))] = splits
    return found


def select_files(names: Iterable[str], configuration: str, split: str, card: Card) -> list[str]:
    """The files of a split among the `names` of a repository, in reading order; none when it has no such split.

    The card decides where it names the split. Else, in this order, `<configuration>/<split>.*`,
    `<configuration>/<split>/*`, `<configuration>/<split>-*`, and for the configuration "default" the same in `data/`
    and at the top; last, for the split "train", all data files of such a folder when no file name there speaks of a
    split. Where a split is there in several formats the first of `SUFFIXES` is taken, so nothing is read twice.
    """
    data = data_files(names)
    patterns = [_glob(pattern) for pattern in card.get(configuration, {}).get(split, [])]
    if named := [name for name in data if any(pattern.fullmatch(name) for pattern in patterns)]:
        return named
    folders = [f"{configuration}/", *(("data/", "") if configuration == "default" else ())]
    for folder in folders:
        for pattern in (f"{folder}{split}.*", f"{folder}{split}/**", f"{folder}{split}-*"):
            if found := _one_format([name for name in data if _glob(pattern).fullmatch(name)]):
                return found
    for folder in folders if split == "train" else ():
        found = [name for name in data if _glob(f"{folder}*").fullmatch(name)]
        if found and not any(_SPLIT_WORD.search(name.rpartition("/")[2].lower()) for name in found):
            return _one_format(found)
    return []


def data_files(names: Iterable[str]) -> list[str]:
    """The names that are data, in natural order: part_2 before part_10."""
    data = (name for name in names if name.endswith(SUFFIXES) and "/." not in f"/{name}")
    return sorted((name for name in data if name.rpartition("/")[2] not in METADATA), key=_natural)


def fetch(
    repository: str,
    folder: Path,
    *,
    revision: str | None = None,
    parts: Sequence[Part] | None = None,
    progress: Callable[[float, str], None],
) -> dict[str, Any]:
    """Fetch splits of a repository (`parts`; None: every data file) into `folder` and return its record.

    What is already there is not fetched again, and a killed download goes on where it was. The record
    (`.download.json`) holds the revision as a commit, the files with their sizes, and the completed parts. Raises
    InputError within seconds when the hub cannot be reached, the repository or revision does not exist, its terms have
    not been accepted, or it lacks a part.
    """
    from huggingface_hub import HfApi

    try:
        info = HfApi().dataset_info(repository, revision=revision, timeout=TIMEOUT_SECONDS, files_metadata=True)
    except Exception as error:  # the hub client raises errors of several libraries
        raise InputError(f"{repository}: {_reason(error, repository, revision)}") from error
    sizes = {file.rfilename: file.size or 0 for file in info.siblings or ()}
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".download.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return _fetch(repository, folder, info.sha, sizes, parts or (), progress)


def _fetch(
    repository: str,
    folder: Path,
    revision: str,
    sizes: Mapping[str, int],
    parts: Sequence[Part],
    progress: Callable[[float, str], None],
) -> dict[str, Any]:
    from huggingface_hub import hf_hub_download
    from huggingface_hub.utils import disable_progress_bars

    record = read_record(folder)
    if record and record["revision"] != revision:
        raise InputError(
            f"{folder} holds {repository} at {record['revision'][:12]}, not {revision[:12]}; use another folder"
        )
    disable_progress_bars()

    def get(name: str, into: Path = folder) -> Path:
        try:
            path = hf_hub_download(repository, name, repo_type="dataset", revision=revision, local_dir=into)
        except Exception as error:
            raise InputError(f"{repository}: {name}: {_reason(error, repository, revision)}") from error
        return Path(path)

    # The hub's card is kept apart from ours, which names only what is here.
    text = get(CARD, folder / ".hub").read_text(errors="replace") if CARD in sizes else ""
    card = card_configurations(text)
    wanted: dict[Part, list[str]] = {}
    for configuration, split in parts:
        wanted[configuration, split] = select_files(sizes, configuration, split, card)
        if not wanted[configuration, split]:
            raise InputError(
                f"{repository} at {revision[:12]} has no split {split!r} of configuration {configuration!r}; "
                f"it has {summary(sizes, card)}"
            )
    files = data_files({name for found in wanted.values() for name in found} if parts else sizes)
    record = record or {"repository": repository, "revision": revision, "parts": [], "all": False, "bytes": {}}
    # From now on nobody takes half a split for a whole one.
    write_text_atomically(folder / RECORD, json.dumps(record, indent=1))
    total, done = sum(sizes[name] for name in files) or 1, 0
    with ThreadPoolExecutor(PARALLEL_FILES) as pool:
        running = {pool.submit(get, name): name for name in files}
        try:
            for finished in as_completed(running):
                finished.result()
                done += sizes[running[finished]]
                progress(done / total, f"{repository}/{running[finished]}")
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)  # what is under way ends, what is not does not begin
            raise
    for entry in record["parts"]:
        wanted.setdefault((entry["configuration"], entry["split"]), entry["files"])
    record |= {
        "parts": [{"configuration": c, "split": s, "files": names} for (c, s), names in sorted(wanted.items())],
        "all": record["all"] or not parts,
        "bytes": record["bytes"] | {name: sizes[name] for name in files},
    }
    if text or wanted:
        write_text_atomically(folder / CARD, text if record["all"] else written_card(text, wanted, repository))
    write_text_atomically(folder / RECORD, json.dumps(record, indent=1))
    return record


def read_record(folder: Path) -> dict[str, Any]:
    """What `fetch` has completed in the folder, or nothing if it never began there."""
    path = folder / RECORD
    return json.loads(path.read_text()) if path.exists() else {}


def is_fetched(record: Mapping[str, Any], parts: Sequence[Part]) -> bool:
    """Whether the parts (none: all there is) have been completed."""
    done = {(entry["configuration"], entry["split"]) for entry in record["parts"]}
    return record["all"] or (bool(parts) and done.issuperset(parts))


def written_card(text: str, parts: Mapping[Part, Sequence[str]], repository: str) -> str:
    """The card with a header for exactly these files. Its `dataset_info` goes: it lists splits that may not be here."""
    header = {key: value for key, value in _header(text).items() if key not in ("configs", "dataset_info")}
    configurations: dict[str, list[dict[str, Any]]] = {}
    for (configuration, split), names in sorted(parts.items()):
        path = names[0] if len(names) == 1 else list(names)
        configurations.setdefault(configuration, []).append({"split": split, "path": path})
    header["configs"] = [{"config_name": name, "data_files": files} for name, files in configurations.items()]
    body = _split_card(text)[1] or f"Fetched from https://huggingface.co/datasets/{repository}.\n"
    return f"---\n{yaml.safe_dump(header, sort_keys=False, allow_unicode=True)}---\n{body}"


def summary(names: Iterable[str], card: Card) -> str:
    """The splits a repository has, in few words, for messages: those its card names, or else its data files."""
    if card:
        found = [f"{configuration}/{split}" for configuration, splits in card.items() for split in splits]
    else:
        found = data_files(names)
    return ", ".join(found[:20]) + (f" and {len(found) - 20} more" if len(found) > 20 else "") or "no data files"


def _reason(error: Exception, repository: str, revision: str | None) -> str:
    """Why the hub said no, without anything secret."""
    from huggingface_hub.errors import GatedRepoError, OfflineModeIsEnabled, RepositoryNotFoundError

    name = type(error).__name__
    if isinstance(error, GatedRepoError):
        return f"gated: accept its terms at https://huggingface.co/datasets/{repository} and set HF_TOKEN"
    if isinstance(error, RepositoryNotFoundError):
        return "there is no such data set on the hub, or it is private: check the name, or set HF_TOKEN"
    if name in ("RevisionNotFoundError", "RevisionResolutionError"):
        return f"it has no revision {revision!r}"
    if isinstance(error, OfflineModeIsEnabled):
        return "the hub may not be asked (HF_HUB_OFFLINE is set)"
    first = next(iter(str(error).strip().splitlines()), "")
    return f"the hub cannot be reached ({name}: {_TOKEN.sub('hf_...', first)[:200]})"


def _header(text: str) -> dict[str, Any]:
    try:
        header = yaml.safe_load(_split_card(text)[0])
    except yaml.YAMLError as error:
        raise InputError(f"{CARD}: its header is not YAML ({str(error).splitlines()[0]})") from error
    return header if isinstance(header, dict) else {}


def _split_card(text: str) -> tuple[str, str]:
    """The header between the first two lines of three dashes, and the rest."""
    found = re.match(r"\ufeff?---\s*\n(.*?)^---\s*$\n?(.*)", text, re.DOTALL | re.MULTILINE)
    return (found[1], found[2]) if found else ("", text)


def _one_format(names: list[str]) -> list[str]:
    for suffix in SUFFIXES:
        if found := [name for name in names if name.endswith(suffix)]:
            return found
    return []


def _natural(name: str) -> list[tuple[bool, int, str]]:
    """Sorting key under which part_2 comes before part_10."""
    return [(not p.isdigit(), int(p) if p.isdigit() else 0, p) for p in re.split(r"(\d+)", name) if p]


def _glob(pattern: str) -> re.Pattern[str]:
    """A file pattern in which `*` and `?` stay within a folder and `**` does not."""
    pieces = re.split(r"(\*\*/?|\*|\?)", pattern.removeprefix("./"))
    known = {"**": ".*", "**/": "(?:.*/)?", "*": "[^/]*", "?": "[^/]"}
    return re.compile("".join(known.get(piece, re.escape(piece)) for piece in pieces))
