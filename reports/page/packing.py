"""Pack what only the page's script needs: text of which no part can end a script element, a quarter as long."""

from __future__ import annotations

import gzip
import json
import os
import stat
import zlib
from base64 import b64decode, b64encode
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import vl_convert


def packed(text: str) -> str:
    """Compress a text and write the bytes in base 64."""
    return b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def unpacked(text: str) -> str:
    """Return the text of `packed`."""
    return gzip.decompress(b64decode(text, validate=True)).decode()


def packed_json(content: Mapping[str, Any]) -> str:
    """Pack an object as JSON."""
    return packed(json.dumps(content, separators=(",", ":"), allow_nan=False))


@cache
def packed_library() -> str:
    """Pack Vega, Vega-Lite and Vega-Embed as one script. Bundling takes seconds: a copy stays in the user's cache."""
    try:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dreamer"
    except RuntimeError:  # a user without a home
        return _bundled()
    copy = folder / f"vega-of-vl-convert-{vl_convert.__version__}.txt"
    library = _kept(copy)
    if library is None:
        library = _bundled()
        _keep(copy, library)
    return library


def _bundled() -> str:
    return packed(vl_convert.javascript_bundle())


def _kept(copy: Path) -> str | None:
    """Read a copy; None where there is none, a damaged one, or one that another user may have written."""
    try:
        with copy.open(encoding="ascii") as file:
            state = os.fstat(file.fileno())
            if state.st_uid != os.getuid() or state.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                return None
            library = file.read()
        return library if unpacked(library) else None
    except (OSError, EOFError, ValueError, zlib.error):
        return None


def _keep(copy: Path, library: str) -> None:
    """Write a copy, if the disk takes one. Another report never reads half a copy."""
    written = copy.with_name(f".{copy.name}.{os.getpid()}")
    try:
        copy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        written.touch(mode=0o600)
        written.write_text(library, encoding="ascii")
        written.replace(copy)
    except OSError:
        with suppress(OSError):
            written.unlink(missing_ok=True)
