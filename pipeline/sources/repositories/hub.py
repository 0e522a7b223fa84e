"""Fetch splits of a data set from the hub into a folder.

This project, `datasets.load_dataset(<folder>, <configuration>)` and lm-eval can read that folder:
it holds the data files, and a card whose header names exactly these files. Scripts of a repository
are neither fetched nor run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from dreamer_study.pipeline.errors import BrokenDownload, InputError, Unreachable, is_full_disk
from dreamer_study.pipeline.sources.repositories.layouts import CARD
from dreamer_study.pipeline.sources.repositories.splits import (
    RECORD,
    Part,
    natural,
    parse_card,
    read_record,
    recorded_parts,
    select_files,
)
from dreamer_study.pipeline.storage.files import write_text_atomically
from dreamer_study.pipeline.storage.locks import open_lock, wait_for_lock
from dreamer_study.pipeline.storage.parallel import Progress, quiet

TIMEOUT_SECONDS = 5
PARALLEL_FILES = 4

_BEGINNING = re.compile(r"[0-9a-f]{7,39}")  # of a commit's hash, which has 40
_TOKEN = re.compile(r"hf_\w+")


def fetch(
    repository: str,
    folder: Path,
    *,
    revision: str | None = None,
    parts: Sequence[Part],
    progress: Progress = quiet,
) -> None:
    """Fetch the splits `parts` of a repository into `folder`.

    Files that are there already are not fetched again; several are fetched at once. `revision` may
    be the beginning of a commit's hash. The record (`.download.json`) holds the commit and the
    files of the completed parts. Raises InputError within seconds when the repository or revision
    does not exist, its terms have not been accepted, or it lacks a part; Unreachable when the hub
    does not answer; BrokenDownload when a file breaks off: another call fetches the rest.
    """
    # of what is here: a folder holds one commit
    revision = revision or read_record(folder).get("revision")
    info = _described(repository, revision, files_metadata=True)
    commit = info.sha
    sizes = {file.rfilename: file.size or 0 for file in info.siblings or ()}
    folder.mkdir(parents=True, exist_ok=True)
    with open_lock(folder / ".download.lock") as lock:
        wait_for_lock(lock)
        record = read_record(folder) or {"repository": repository, "revision": commit, "parts": []}
        if record["revision"] != commit:
            raise InputError(
                f"{folder} holds {repository} at {record['revision'][:12]}, not {commit[:12]}; pin"
                " one `revision`, or use another folder"
            )
        # The hub's card is kept apart from ours, which names only what is here.
        text = ""
        if CARD in sizes:
            text = _download(repository, commit, folder / ".hub", CARD).read_text(errors="replace")
        where = f"{repository} at {commit[:12]}"
        wanted = {part: select_files(sizes, part, text, where) for part in parts}
        # From here on a killed download leaves a record, which names only complete splits as
        # complete.
        write_text_atomically(folder / RECORD, json.dumps(record, indent=1))
        files = sorted({name for names in wanted.values() for name in names}, key=natural)
        total = sum(sizes[name] for name in files) or 1
        done = 0
        with ThreadPoolExecutor(PARALLEL_FILES) as pool:
            fetched = pool.map(partial(_download, repository, commit, folder), files)
            # after an error, waiting files do not start
            for name, _ in zip(files, fetched, strict=True):
                done += sizes[name]
                progress(done / total, f"{repository}/{name}")
        complete = recorded_parts(record) | wanted
        record["parts"] = [
            {**part._asdict(), "files": names} for part, names in sorted(complete.items())
        ]
        write_text_atomically(folder / CARD, written_card(text, complete, repository))
        write_text_atomically(folder / RECORD, json.dumps(record, indent=1))


def resolve_commit(repository: str, revision: str | None = None) -> str:
    """Return the whole hash of a commit that `revision` begins, or of the newest one.

    Raises InputError as `fetch` does.
    """
    return _described(repository, revision).sha


def _described(repository: str, revision: str | None, **wanted: Any) -> Any:
    """Ask the hub for the commit and the files of a repository."""
    from huggingface_hub import HfApi

    ask = partial(HfApi().dataset_info, repository, timeout=TIMEOUT_SECONDS)
    try:
        if revision and _BEGINNING.fullmatch(revision):
            ask()  # a listing of commits has no time limit, so ask first whether the hub answers
            # The hub takes whole hashes only.
            for commit in HfApi().list_repo_commits(repository, repo_type="dataset"):
                if commit.commit_id.startswith(revision):
                    revision = commit.commit_id
                    break
        return ask(revision=revision, **wanted)
    except Exception as error:  # the hub client raises errors of several libraries
        reason = _refusal(error, repository, revision)
        if reason:
            raise InputError(f"{repository}: {reason}") from error
        raise Unreachable(f"{repository}: {_unreachable(error)}") from error


def _download(repository: str, commit: str, folder: Path, name: str) -> Path:
    """Fetch one file, unless it is there.

    Raises BrokenDownload, and InputError where another try cannot help.
    """
    from huggingface_hub import hf_hub_download
    from huggingface_hub.utils import disable_progress_bars

    disable_progress_bars()
    try:
        path = hf_hub_download(
            repository, name, repo_type="dataset", revision=commit, local_dir=folder
        )
    except Exception as error:
        reason = _refusal(error, repository, commit)
        if is_full_disk(error):
            reason = f"the disk of {folder} is full"
        if reason:
            raise InputError(f"{repository}: {name}: {reason}") from error
        raise BrokenDownload(f"{repository}: {name}: {_unreachable(error)}") from error
    return Path(path)


def is_fetched(record: dict[str, Any], parts: Sequence[Part]) -> bool:
    """Tell whether `fetch` has completed the parts."""
    return recorded_parts(record).keys() >= set(parts)


def written_card(text: str, parts: Mapping[Part, Sequence[str]], repository: str) -> str:
    """Return the card `text` with a header that names exactly the files of these parts."""
    header, body = parse_card(text)
    # The hub's `dataset_info` lists splits that may not be here.
    header = {key: value for key, value in header.items() if key not in ("configs", "dataset_info")}
    configurations: dict[str, list[dict[str, Any]]] = {}
    for (configuration, split, patterns), names in sorted(parts.items()):
        if patterns:
            continue  # of no configuration; the record names their files
        path = names[0] if len(names) == 1 else list(names)
        configurations.setdefault(configuration, []).append({"split": split, "path": path})
    header["configs"] = [
        {"config_name": name, "data_files": files} for name, files in configurations.items()
    ]
    body = body or f"Fetched from https://huggingface.co/datasets/{repository}.\n"
    return f"---\n{yaml.safe_dump(header, sort_keys=False, allow_unicode=True)}---\n{body}"


def _refusal(error: Exception, repository: str, revision: str | None) -> str | None:
    """Put the hub's refusal into words; None where the hub has refused nothing, but is not
    reached."""
    from huggingface_hub.errors import GatedRepoError, OfflineModeIsEnabled, RepositoryNotFoundError

    if isinstance(error, GatedRepoError):
        return (
            f"gated: accept its terms at https://huggingface.co/datasets/{repository} and set"
            " HF_TOKEN"
        )
    if isinstance(error, RepositoryNotFoundError):
        return (
            "there is no such data set on the hub, or it is private: check the name, or set"
            " HF_TOKEN"
        )
    if type(error).__name__ in ("RevisionNotFoundError", "RevisionResolutionError"):
        return f"it has no revision {revision!r}"
    if isinstance(error, OfflineModeIsEnabled):
        return "the hub may not be asked (HF_HUB_OFFLINE is set)"
    return None


def _unreachable(error: Exception) -> str:
    """Say that the hub is not reached, and why, without any token."""
    first = next(iter(str(error).strip().splitlines()), "")
    why = _TOKEN.sub("hf_...", first)[:200]
    return f"the hub cannot be reached ({type(error).__name__}: {why})"
