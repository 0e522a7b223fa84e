"""Accept changed code for a run that other code has started, and record each change in the run's folder.

`code_changes.json` holds one object for each change: "time", "tokens" and "step" from which the new code trains,
"before" and "after" (digests of the code), "changed" (the files that differ).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pipeline.storage.files import write_text_atomically

CODE_CHANGES = "code_changes.json"


def code_digest(code: Mapping[str, str]) -> str:
    """Digest the digests of the sources: 12 hexadecimal digits."""
    return hashlib.blake2b(json.dumps(code, sort_keys=True).encode(), digest_size=6).hexdigest()


def read_code_changes(run: Path) -> list[dict[str, Any]]:
    """Read the accepted code changes of the run in a folder, oldest first; none for a run of one code."""
    path = run / CODE_CHANGES
    return json.loads(path.read_text()) if path.exists() else []


def record_code_change(run: Path, change: Mapping[str, Any]) -> None:
    """Add one change to `code_changes.json`, in one step; a change that was accepted but not trained on counts once."""
    changes = [{name: value for name, value in one.items() if name != "time"} for one in read_code_changes(run)]
    if dict(change) in changes:
        return
    dated = [*read_code_changes(run), {"time": datetime.now(UTC).isoformat(timespec="seconds"), **change}]
    write_text_atomically(run / CODE_CHANGES, json.dumps(dated, indent=1))
