"""Start studies as a user does, find the processes that they have started, and be a stranger to
them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from base64 import b64encode
from pathlib import Path
from typing import Any

import psutil

from dreamer_study.flows.prefect.server import secret_file_of
from tests.flows.small_study import PROJECT

DREAMER, PREFECT = (Path(sys.executable).with_name(name) for name in ("dreamer", "prefect"))


def environment(**variables: str) -> dict[str, str]:
    """The environment without settings of Prefect, which a study leaves that a test has run in this
    process."""
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
    """The processes whose command line or environment names a folder, with these words in their
    command line."""
    found = []
    for process in psutil.process_iter(["cmdline", "environ"]):
        command, variables = process.info["cmdline"] or [], process.info["environ"] or {}
        if words in " ".join(command) and any(
            str(folder) in text for text in (*command, *variables.values())
        ):
            found.append(process.pid)
    return found


def ask(address: str, path: str, body: object = None) -> Any:
    """The answer of a Prefect server of ours; nothing where none comes, as from a server that is
    just starting."""
    try:
        return request(address, path, body)
    except OSError:
        return {}


def request(address: str, path: str, body: object = None, method: str | None = None) -> Any:
    """The answer of a Prefect server of ours; nothing where it is empty."""
    content = None if body is None else json.dumps(body).encode()
    headers = {
        "Content-Type": "application/json",
        "Authorization": "Basic " + b64encode(secret_file_of(address).read_bytes()).decode(),
    }
    asked = urllib.request.Request(f"{address}/{path}", content, headers, method=method)
    with urllib.request.urlopen(asked, timeout=30) as answer:
        return json.loads(answer.read() or "{}")


def trains(root: Path) -> bool:
    """Whether a training has saved a state."""
    return bool(list(root.glob("store/runs/*/state/*/values.json")))


def answered(address: str, path: str, **headers: str) -> tuple[int, dict[str, str]]:
    """The status and the headers of the answer to a POST, or to what the headers ask for
    beforehand."""
    method = "OPTIONS" if "Access-Control-Request-Method" in headers else "POST"
    request = urllib.request.Request(
        f"{address}{path}", b"{}", {"Content-Type": "application/json", **headers}, method=method
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, {name.lower(): value for name, value in answer.headers.items()}
    except urllib.error.HTTPError as error:
        return error.code, {name.lower(): value for name, value in error.headers.items()}


def refuses_strangers(address: str) -> None:
    """Check that a Prefect server does nothing for pages of other origins, nor for who has no
    secret."""
    allowed = "access-control-allow-origin"
    basic = "Basic " + b64encode(secret_file_of(address).read_bytes()).decode()
    foreign = {"Origin": "https://evil.example"}
    assert answered(address, "/flow_runs/filter", Authorization=basic)[0] == 200
    for path in ("/flow_runs/filter", "/deployments/filter", "/deployments/"):
        for headers in ({}, foreign, {"Authorization": "Basic ZHJlYW1lcjpndWVzcw=="}):
            status, told = answered(address, path, **headers)
            assert status == 401
            assert allowed not in told
    wanted = {
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "content-type,authorization",
    }
    status, told = answered(address, "/deployments/", **foreign, **wanted)
    assert status == 400
    assert allowed not in told
    with urllib.request.urlopen(address.removesuffix("/api"), timeout=30) as page:
        assert b"<html" in page.read().lower()


MODULES = ("ctypes", "glob", "safetensors", "torch", "model")


def plant(folder: Path) -> Path:
    """Plant modules, and settings of Prefect that name code; returns the file to which they write
    when they run."""
    ran = folder / "ran"
    for name in MODULES:
        (folder / f"{name}.py").write_text(f"open({str(ran)!r}, 'a').write('{name} ')\n")
    (folder / "prefect.toml").write_text('[logging]\nconfig_path = "logging.yml"\n')
    formatter = f'{{"()": os.system, command: "echo prefect.toml >> {ran}"}}'
    (folder / "logging.yml").write_text(f"version: 1\nformatters:\n  hostile: {formatter}\n")
    return ran
