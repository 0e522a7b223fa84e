"""Quick parts of an evaluation get files when they took seconds together; a killed evaluation computes the rest."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from model.evaluation import resume
from model.evaluation.resume import Part, concatenate, finish_parts


def test_parts_are_written_together_when_they_took_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, computed, folder = [0.0], [], tmp_path / "000000000001000"
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])

    def part(number: int, seconds: float) -> Part:
        def rows() -> dict[str, pa.Table]:
            computed.append(number)
            clock[0] += seconds
            return {"evaluations": pa.table({"number": [number]})}

        return Part(1, 1, rows)

    parts = [part(0, 0.9), part(1, 0.9), part(2, 0.9), part(3, 0.9), part(4, 0.9)]
    told: list[tuple[int, bool]] = []

    def found() -> Iterator[dict[str, pa.Table]]:
        return finish_parts(folder, parts, lambda part, there: told.append((parts.index(part), there)))

    def written() -> list[str]:
        return sorted(path.name for path in tmp_path.glob(f"{folder.name}{resume.PARTS}/*"))

    killed = found()
    kept = []
    for _ in range(4):
        next(killed)
        kept.append(written())
    assert kept == [[], [], ["000", "001", "002"], ["000", "001", "002"]]
    killed.close()

    del computed[:], told[:]
    rows = list(found())
    assert computed == [3, 4]
    assert told == [(0, True), (1, True), (2, True), (3, False), (4, False)]
    assert concatenate(folder, rows)["evaluations"]["number"].to_pylist() == [0, 1, 2, 3, 4]
    assert not written()
