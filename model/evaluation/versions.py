"""Which code and which packages made a result: noted with every evaluation, also where there is no git."""

from __future__ import annotations

import functools
import hashlib
import json
import platform
import subprocess
from importlib import metadata
from pathlib import Path

from model.training.run import code_version as source_digests

# Those that can change a number.
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


def code_version() -> str:
    """The package's version, with the commit where it runs from a checkout, and `+changes` if that has been edited."""
    try:
        version = metadata.version("dreamer-study")
    except metadata.PackageNotFoundError:  # a bare machine has the files alone
        version = "not installed"
    folder = Path(__file__).resolve().parents[2]
    if not (folder / ".git").exists():
        return version  # not a checkout, though perhaps within someone else's
    try:
        asked = ["git", "-C", str(folder), "describe", "--always", "--dirty=+changes", "--abbrev=12", "--exclude=*"]
        described = subprocess.run(asked, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return version
    return f"{version} ({described})"


@functools.cache
def evaluation_code() -> str:
    """`code_version` and a digest of the source files that evaluation runs, which tells edited checkouts apart."""
    sources = {name: digest for name, digest in source_digests("model.evaluate").items() if name != "torch"}
    digest = hashlib.blake2b(json.dumps(sources, sort_keys=True).encode(), digest_size=6).hexdigest()
    return f"{code_version()}, sources {digest}"


@functools.cache
def packages() -> str:
    """JSON: the version of Python and of every package that can change a number, as far as it is installed."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return json.dumps(found)
