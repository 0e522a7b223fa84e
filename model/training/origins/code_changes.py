"""Find and accept changed code of a run that other code has started, and record each change in the run's folder.

`code_changes.json` holds one object for each change: "time", "tokens" and "step" from which the new code trains,
"before" and "after" (digests of the code), "changed" (the files that differ).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from model.training.config import Run
from model.training.origins.provenance import code_digest, differences
from pipeline.errors import InputError
from pipeline.storage.files import write_text_atomically

CODE_CHANGES = "code_changes.json"


def find_code_change(
    run: Run, saved: Mapping[str, Any], origin: Mapping[str, Any], accept: bool
) -> dict[str, Any] | None:
    """Compare what the run was started with, in the values of its state, and what it goes on with.

    Returns the code change, if there is one and it is accepted. Raises InputError for every other difference.
    """
    before = saved["origin"]
    changed = differences(before, origin)
    if not changed:
        return None
    old, new = code_digest(before["code"]), code_digest(origin["code"])
    way = ""
    if not differences({**before, "code": {}}, {**origin, "code": {}}):  # nothing else has changed
        if accept:
            return {"tokens": saved["tokens"], "step": saved["step"], "before": old, "after": new, "changed": changed}
        way = f"go on with --accept-code-change ({run.run_id} was started with code {old}, this is {new}), "
    more = f" and {len(changed) - 5} more" if len(changed) > 5 else ""
    raise InputError(
        f"{run.folder} cannot be continued: since it was started, {'; '.join(changed[:5])}{more}; "
        f"undo that, {way}or remove the folder to start over"
    )


def record_code_change(run: Path, change: Mapping[str, Any]) -> None:
    """Add one change to `code_changes.json`, atomically; accepted again before any step, a change stands there once."""
    path = run / CODE_CHANGES
    changes = json.loads(path.read_text()) if path.exists() else []
    if any(one.items() >= change.items() for one in changes):
        return
    changes.append({"time": datetime.now(UTC).isoformat(timespec="seconds"), **change})
    write_text_atomically(path, json.dumps(changes, indent=1))
