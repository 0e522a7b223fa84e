"""Record what made a result: digests of source files, the version of this package, versions of
other packages.

Changed code of a run that other code has started is found and accepted, and each change recorded in
the run's folder.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import json
import platform
import subprocess
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from dreamer_study.model.training.config import TrainingRun
from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.storage.files import write_text_atomically

CODE_CHANGES = "code_changes.json"
PROJECT = Path(__file__).resolve().parents[2]
PACKAGES = (
    "torch",
    "numpy",
    "safetensors",
    "tokenizers",
    "datasets",
    "lm-eval",
    "math-verify",
    "latex2sympy2-extended",
    "sympy",
    "antlr4-python3-runtime",
)
"""Packages that can change a number of an evaluation."""


@functools.cache
def source_digests(module: str) -> dict[str, str]:
    """Hash the source files that a module runs: its own and all of `model/` that it imports.

    The C files in the folder `source/` beside a module belong to that module. Files are read once:
    a process that has imported a module runs what the files were then.

    Example: `source_digests("dreamer_study.model.train")` is `{"model/accounting.py": "5c0e...",
    ..., "model/train.py": "91ab..."}`.
    """
    found: dict[str, str] = {}
    waiting = [module]
    while waiting:
        place = PROJECT / waiting.pop().removeprefix("dreamer_study.").replace(".", "/")
        source = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
        if not source.is_file() or str(source.relative_to(PROJECT)) in found:
            continue
        for path in (source, *source.parent.glob("source/*.[ch]")):
            digest = hashlib.blake2b(path.read_bytes(), digest_size=8)
            found[str(path.relative_to(PROJECT))] = digest.hexdigest()
        waiting += [
            name
            for name in _imports(source.read_bytes())
            if name.startswith("dreamer_study.model.")
        ]
    return dict(sorted(found.items()))


def code_digest(code: Mapping[str, str]) -> str:
    """Hash the digests of all source files to 12 hexadecimal digits."""
    return hashlib.blake2b(json.dumps(code, sort_keys=True).encode(), digest_size=6).hexdigest()


def _imports(source: bytes) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def differences(before: Mapping[str, Any], now: Mapping[str, Any], prefix: str = "") -> list[str]:
    """List what differs between two nested records, one phrase for each leaf; digests are named,
    not printed.

    Example: `{"training": {"seed": 1}}` and `{"training": {"seed": 2}}` give `["training.seed was 1
    and is 2"]`.
    """
    found = []
    for name in sorted({*before, *now}):
        old, new, path = before.get(name), now.get(name), prefix + name
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            found += differences(old, new, "" if name == "code" else f"{path}.")
        elif old != new:
            is_digest = path == "data" or path.endswith((".py", ".c", ".h"))
            found.append(f"{path} changed" if is_digest else f"{path} was {old!r} and is {new!r}")
    return found


def find_code_change(
    run: TrainingRun, saved: Mapping[str, Any], origin: Mapping[str, Any], accept: bool
) -> dict[str, Any] | None:
    """Compare what the run was started with, in the values of its state, and what it goes on with.

    Returns the code change, if there is one and it is accepted. Raises InputError for every other
    difference.
    """
    before = saved["origin"]
    changed = differences(before, origin)
    if not changed:
        return None
    old, new = code_digest(before["code"]), code_digest(origin["code"])
    way = ""
    if not differences({**before, "code": {}}, {**origin, "code": {}}):  # nothing else has changed
        if accept:
            return {
                "tokens": saved["tokens"],
                "step": saved["step"],
                "before": old,
                "after": new,
                "changed": changed,
            }
        way = (
            f"go on with --accept-code-change ({run.run_id} was started with code {old}, this is"
            f" {new}), "
        )
    more = f" and {len(changed) - 5} more" if len(changed) > 5 else ""
    raise InputError(
        f"{run.folder} cannot be continued: since it was started, {'; '.join(changed[:5])}{more}; "
        f"undo that, {way}or remove the folder to start over"
    )


def record_code_change(run: Path, change: Mapping[str, Any]) -> None:
    """Add one change to `code_changes.json`, atomically; accepted again before any step, a change
    stands there once.

    The file holds one object for each change: "time", "tokens" and "step" from which the new code
    trains, "before" and
    "after" (digests of the code), "changed" (the files that differ).
    """
    path = run / CODE_CHANGES
    changes = json.loads(path.read_text()) if path.exists() else []
    if any(one.items() >= change.items() for one in changes):
        return
    changes.append({"time": datetime.now(UTC).isoformat(timespec="seconds"), **change})
    write_text_atomically(path, json.dumps(changes, indent=1))


def package_version() -> str:
    """Return this package's version, with the commit in a checkout, and `+changes` if the checkout
    has been edited."""
    version = metadata.version("dreamer-study")
    if not (PROJECT / ".git").exists():
        return version  # no checkout, though the folder may lie within another project's
    try:
        command = [
            "git",
            "-C",
            str(PROJECT),
            "describe",
            "--always",
            "--dirty=+changes",
            "--abbrev=12",
            "--exclude=*",
        ]
        described = subprocess.run(
            command, capture_output=True, text=True, timeout=10, check=True
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return version
    return f"{version} ({described})"


@functools.cache
def evaluation_code() -> str:
    """Return `package_version` and a digest of evaluation's source files, which tells edited
    checkouts apart."""
    return (
        f"{package_version()}, sources"
        f" {code_digest(source_digests('dreamer_study.model.evaluate'))}"
    )


@functools.cache
def packages() -> str:
    """Return, as JSON, the versions of Python and of the PACKAGES."""
    return json.dumps(
        {"python": platform.python_version(), **{name: metadata.version(name) for name in PACKAGES}}
    )
