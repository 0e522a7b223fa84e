"""Pack what only the page's script needs: text of which no part can end a script element, a quarter as long."""

from __future__ import annotations

import gzip
import json
from base64 import b64encode
from collections.abc import Mapping
from functools import cache
from typing import Any

import vl_convert


def packed(text: str) -> str:
    """Compress a text and write the bytes in base 64."""
    return b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def packed_json(content: Mapping[str, Any]) -> str:
    """Pack an object as JSON."""
    return packed(json.dumps(content, separators=(",", ":"), allow_nan=False))


@cache
def packed_library() -> str:
    """Pack Vega, Vega-Lite and Vega-Embed as one script, which takes seconds."""
    return packed(vl_convert.javascript_bundle())
