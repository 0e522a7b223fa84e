"""Score a curation of the built-in world against the ground truth of its rows."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path


def score_curation(folder: Path, kept: Iterable[int]) -> dict[str, dict[str, int]]:
    """Score the rows that a pipeline kept against the world's truth: for each kind, rows and right ones.

    Clean rows and variants in other numbers must be kept; leaks, broken rows and unclosed traces dropped; of a
    duplicate and its original at most one kept. A clean row counts as kept if its duplicate is.
    """
    with (Path(folder) / "truth.jsonl").open(encoding="utf-8") as file:
        truth = [json.loads(line) for line in file]
    kept = set(kept)
    stands_in = {entry["of"]: entry["row"] for entry in truth if entry["kind"] in ("exact", "near")}
    scores: dict[str, dict[str, int]] = {}
    for entry in truth:
        row, kind = entry["row"], entry["kind"]
        if kind in ("clean", "numbers"):
            right = row in kept or stands_in.get(row) in kept
        elif kind in ("exact", "near"):
            right = row not in kept or entry["of"] not in kept
        else:
            right = row not in kept
        score = scores.setdefault(kind, {"rows": 0, "right": 0})
        score["rows"] += 1
        score["right"] += right
    return dict(sorted(scores.items()))
