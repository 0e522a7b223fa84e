"""Pack what only the page's script needs: text of which no part can end a script element, a quarter as long."""

from __future__ import annotations

import gzip
import json
import os
from base64 import b64decode, b64encode
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import vl_convert


def packed(text: str) -> str:
    """Compress a text and write the bytes in base 64."""
    return b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def unpacked(text: str) -> str:
    """Return the text of `packed`."""
    return gzip.decompress(b64decode(text)).decode()


def packed_json(content: Mapping[str, Any]) -> str:
    """Pack an object as JSON."""
    return packed(json.dumps(content, separators=(",", ":"), allow_nan=False))


@cache
def packed_library() -> str:
    """Pack Vega, Vega-Lite and Vega-Embed as one script. Bundling takes seconds: a copy stays in the user's cache."""
    try:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dreamer"
        copy = folder / f"vega-of-vl-convert-{vl_convert.__version__}.txt"
        return copy.read_text() if copy.exists() else _copied(copy)
    except (OSError, RuntimeError):  # no home, or a disk that is full or not to be written to
        return _bundled()


def _bundled() -> str:
    return packed(vl_convert.javascript_bundle())


def _copied(copy: Path) -> str:
    library = _bundled()
    copy.parent.mkdir(parents=True, exist_ok=True)
    written = copy.with_name(f".{copy.name}.{os.getpid()}")  # another report never reads half a copy
    written.write_text(library)
    written.replace(copy)
    return library
