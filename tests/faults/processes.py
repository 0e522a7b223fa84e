"""Start studies as a user does, and find the processes that they have started."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from base64 import b64encode
from pathlib import Path
from typing import Any

import psutil

from flows.prefect.secret import secret
from tests.flows.small_study import PROJECT

DREAMER, PREFECT = (Path(sys.executable).with_name(name) for name in ("dreamer", "prefect"))


def environment(**variables: str) -> dict[str, str]:
    """The environment without settings of Prefect, which a study leaves that a test has run in this process."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    return {**ours, "OMP_NUM_THREADS": "1", **variables}


def start(
    study: Path, root: Path, log: Path, *options: str, cwd: Path = PROJECT, **variables: str
) -> subprocess.Popen[bytes]:
    """`dreamer run` of a study; what it says is appended to `log`."""
    command = [DREAMER, "run", str(study), "--root", str(root), *options]
    with log.open("ab") as output:
        return subprocess.Popen(
            command,
            stdout=output,
            stderr=output,
            cwd=cwd,
            env=environment(**variables),
            start_new_session=True,
        )


def child(parent: int, words: str) -> int | None:
    """A child of a process, with these words in its command line."""
    for process in psutil.process_iter(["ppid", "cmdline"]):
        if process.info["ppid"] == parent and words in " ".join(process.info["cmdline"] or []):
            return process.pid
    return None


def started_for(folder: Path | str, words: str = "") -> list[int]:
    """The processes whose command line or environment names a folder, with these words in their command line."""
    found = []
    for process in psutil.process_iter(["cmdline", "environ"]):
        command, variables = process.info["cmdline"] or [], process.info["environ"] or {}
        if words in " ".join(command) and any(str(folder) in text for text in (*command, *variables.values())):
            found.append(process.pid)
    return found


def ask(address: str, path: str, body: object = None) -> Any:
    """The answer of a Prefect server of ours; nothing where none comes, as from a server that is just starting."""
    content = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json", "Authorization": "Basic " + b64encode(secret().encode()).decode()}
    try:
        with urllib.request.urlopen(
            urllib.request.Request(f"{address}/{path}", content, headers), timeout=30
        ) as answer:
            return json.load(answer)
    except OSError:
        return {}


def trains(root: Path) -> bool:
    """Whether a training has saved a state."""
    return bool(list(root.glob("store/runs/*/state/*/values.json")))
