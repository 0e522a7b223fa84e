"""Pack Vega, which draws figures in a browser, so that a page or a notebook needs no network."""

from __future__ import annotations

import gzip
from base64 import b64encode
from contextlib import suppress
from functools import cache

import vl_convert

from dreamer_study.pipeline.user_cache import user_cache
from dreamer_study.reports.figures.addresses import check_drawing
from dreamer_study.reports.figures.rendering import put


def packed(text: str) -> str:
    """Pack what only a script needs.

    Packed, a text is a quarter as long, and no part of it can end a script element.
    """
    return b64encode(gzip.compress(text.encode(), compresslevel=6, mtime=0)).decode()


@cache
def packed_library() -> str:
    """Pack Vega, Vega-Lite and Vega-Embed as one script.

    That takes two seconds, so the user's cache keeps the script, where nobody else can change it.
    """
    folder = user_cache()
    kept = folder / f"vega-{vl_convert.__version__}.txt" if folder else None
    if kept:
        with suppress(OSError):
            return kept.read_text()
    check_drawing()
    library = packed(vl_convert.javascript_bundle())
    if kept:
        with suppress(OSError):  # a full disk
            put(kept, library.encode())
    return library
