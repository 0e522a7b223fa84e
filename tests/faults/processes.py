"""Start studies as a user does, and find the processes that they have started."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from base64 import b64encode
from contextlib import suppress
from pathlib import Path
from typing import Any

from flows.prefect.secret import secret
from tests.flows.small_study import PROJECT

DREAMER = Path(sys.executable).with_name("dreamer")


def start(
    study: Path, root: Path, log: Path, *options: str, cwd: Path = PROJECT, **variables: str
) -> subprocess.Popen[bytes]:
    """`dreamer run` of a study; what it says is appended to `log`."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    command = [DREAMER, "run", str(study), "--root", str(root), *options]
    with log.open("ab") as output:
        return subprocess.Popen(
            command,
            stdout=output,
            stderr=output,
            cwd=cwd,
            env={**ours, "OMP_NUM_THREADS": "1", **variables},
            start_new_session=True,
        )


def commands() -> dict[int, str]:
    """The command line of every process."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # a process that has ended meanwhile
            found[int(path.parent.name)] = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return found


def child(parent: int, words: str) -> int | None:
    """A child of a process, with these words in its command line."""
    for number, command in commands().items():
        with suppress(OSError):
            status = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
            if int(status[1]) == parent and words in command:
                return number
    return None


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


def started_for(folder: Path) -> list[int]:
    """The processes whose command line or environment names a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # a process that has ended meanwhile, or another user's
            if bytes(folder) in (path / "cmdline").read_bytes() + (path / "environ").read_bytes():
                found.append(int(path.name))
    return found


def trains(root: Path) -> bool:
    """Whether a training has saved a state."""
    return bool(list(root.glob("store/runs/*/state/*/values.json")))
