"""Record what made a result: digests of source files, versions of this and other packages.

A run that other code has started is found here, and accepted where the user says so; each accepted
change is recorded in the run's folder.
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

from pydantic import TypeAdapter, ValidationError

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
    digests: dict[str, str] = {}
    waiting = [module]
    while waiting:
        path = PROJECT / waiting.pop().removeprefix("dreamer_study.").replace(".", "/")
        source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        if not source.is_file() or str(source.relative_to(PROJECT)) in digests:
            continue
        for file in (source, *source.parent.glob("source/*.[ch]")):
            digest = hashlib.blake2b(file.read_bytes(), digest_size=8)
            digests[str(file.relative_to(PROJECT))] = digest.hexdigest()
        for name in _imports(source.read_bytes()):
            if name.startswith("dreamer_study.model."):
                waiting.append(name)
    return dict(sorted(digests.items()))


def code_digest(code: Mapping[str, str]) -> str:
    """Hash the digests of all source files to 12 hexadecimal digits."""
    return hashlib.blake2b(json.dumps(code, sort_keys=True).encode(), digest_size=6).hexdigest()


def _imports(source: bytes) -> Iterator[str]:
    """Name the modules that a source imports, and what may be modules of a package."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def differences(before: Mapping[str, Any], now: Mapping[str, Any], prefix: str = "") -> list[str]:
    """List what differs between two nested records, one phrase for each leaf.

    Digests are named, not printed. Example: `{"training": {"seed": 1}}` and `{"training": {"seed":
    2}}` give `["training.seed was 1 and is 2"]`.
    """
    phrases: list[str] = []
    for name in sorted({*before, *now}):
        old = before.get(name)
        new = now.get(name)
        path = prefix + name
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            within = "" if name == "code" else f"{path}."  # files of code are named alone
            phrases += differences(old, new, within)
        elif old == new:
            continue
        elif path == "data" or path.endswith((".py", ".c", ".h")):
            phrases.append(f"{path} changed")
        else:
            phrases.append(f"{path} was {old!r} and is {new!r}")
    return phrases


def find_code_change(
    run: TrainingRun, saved: Mapping[str, Any], origin: Mapping[str, Any], accept: bool
) -> dict[str, Any] | None:
    """Compare what the run was started with, `saved` in its state, and what would continue it.

    Returns the code change, if there is one and it is accepted. Raises InputError for every other
    difference.
    """
    # states from before the version of a package was noted stay good; files have paths
    unnoted = {name: version for name, version in origin["code"].items() if "/" not in name}
    before = {**saved["origin"], "code": {**unnoted, **saved["origin"]["code"]}}
    changed = differences(before, origin)
    if not changed:
        return None
    old_code = code_digest(before["code"])
    new_code = code_digest(origin["code"])
    only_code = not differences({**before, "code": {}}, {**origin, "code": {}})
    if only_code and accept:
        return {
            "tokens": saved["tokens"],
            "step": saved["step"],
            "before": old_code,
            "after": new_code,
            "changed": changed,
        }
    way = ""
    if only_code:
        way = (
            f"continue with --accept-code-change ({run.run_id} was started with code {old_code},"
            f" this is {new_code}), "
        )
    more = f" and {len(changed) - 5} more" if len(changed) > 5 else ""
    raise InputError(
        f"{run.folder} cannot be continued: since its start, {'; '.join(changed[:5])}{more}; "
        f"undo the change, {way}or remove the folder to start over"
    )


def record_code_change(run: Path, change: Mapping[str, Any]) -> None:
    """Add one change to `code_changes.json`, atomically.

    A change that is accepted again before any step is there once. An entry of the file:

        {"time": "2026-11-28T09:15:00+00:00", "tokens": 400384, "step": 782,
         "before": "5c0e9b1d22aa", "after": "91ab3f0c77de", "changed": ["model/train.py changed"]}

    "tokens" and "step" are those from which the new code trains, "before" and "after" digests of
    all code.
    """
    path = run / CODE_CHANGES
    changes = _code_changes(path)
    if any(earlier.items() >= change.items() for earlier in changes):
        return
    changes.append({"time": datetime.now(UTC).isoformat(timespec="seconds"), **change})
    write_text_atomically(path, json.dumps(changes, indent=1))


def _code_changes(path: Path) -> list[dict[str, Any]]:
    """Read the changes that were accepted before. Raises InputError for a damaged file."""
    if not path.exists():
        return []
    try:
        return TypeAdapter(list[dict[str, Any]]).validate_json(path.read_bytes())
    except ValidationError:
        raise InputError(
            f"{path} is damaged: the code changes that were accepted before cannot be read; move"
            " the file elsewhere to continue without them"
        ) from None


def package_version() -> str:
    """Return this package's version; in a checkout with the commit, `+changes` if it is edited."""
    version = metadata.version("dreamer-study")
    if not (PROJECT / ".git").exists():
        return version  # no checkout, though the folder may lie within another project's
    # without tags: the commit alone, 12 digits of it
    options = ["--always", "--dirty=+changes", "--abbrev=12", "--exclude=*"]
    command = ["git", "-C", str(PROJECT), "describe", *options]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return version
    return f"{version} ({result.stdout.strip()})"


@functools.cache
def evaluation_code() -> str:
    """Return `package_version` and a digest of evaluation's source files.

    The digest distinguishes edited checkouts.
    """
    sources = code_digest(source_digests("dreamer_study.model.evaluate"))
    return f"{package_version()}, sources {sources}"


@functools.cache
def packages() -> str:
    """Return, as JSON, the versions of Python and of the PACKAGES."""
    versions = {name: metadata.version(name) for name in PACKAGES}
    return json.dumps({"python": platform.python_version(), **versions})
