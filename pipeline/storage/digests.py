"""Hash values and files: digests name the outputs of a store, and betray files that were changed.

>>> digest({"b": 1, "a": [2.0, None]}) == digest({"a": [2.0, None], "b": 1})
True
>>> digest(["read", 3])
'a05f8b0d2d1ab6ae'
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

_of_states: dict[tuple[int, ...], str] = {}  # digests of the files that this process has hashed


def canonical(value: Any) -> str:
    """Write a value as JSON with sorted keys and no spaces: equal values give equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def digest(value: Any) -> str:
    """Hash the canonical JSON of `value` to 16 hexadecimal digits."""
    return hashlib.blake2b(canonical(value).encode(), digest_size=8).hexdigest()


def file_digest(path: Path) -> str:
    """Hash a file's bytes to 32 hexadecimal digits.

    Within one process a file that has not changed is read once.
    """
    stat = path.stat()
    state = (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
    if state not in _of_states:
        with open(path, "rb") as file:
            hashed = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16))
        _of_states[state] = hashed.hexdigest()
    return _of_states[state]
