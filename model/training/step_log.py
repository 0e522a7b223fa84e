"""Write the log of a run's steps, `steps.csv`, and read what a run has recorded: its rows of `runs`
and `steps`.

Rows end with the newest state, which holds the length and the checksum of the log: what a bad disk
has changed is seen.
"""

from __future__ import annotations

import os
import zlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import pyarrow as pa
from pyarrow import csv as arrow_csv

from dreamer_study.model.checkpoints.checksums import newest_values
from dreamer_study.pipeline.errors import InputError

STEP_TYPES = {
    "step": "int64",
    "tokens": "int64",
    "loss": "float64",
    "learning_rate": "float64",
    "gradient_norm": "float64",
    "seconds": "float64",
}
# of a state's values, in `runs`
RECORDED = ("tokens", "seconds", "device", "tokens_per_second", "mfu", "stream_hash")


class StepLog:
    """Append a buffered line to `steps.csv` for each step. A resumed run cuts off lines newer than
    its state."""

    def __init__(self, path: Path, length: int, checksum: int = 0) -> None:
        """Open the log and cut the file to `length` bytes, whose CRC-32 is `checksum`; 0 for a new
        log.

        Raises InputError where the file is shorter, or has another checksum.
        """
        self._sum = zlib.crc32(_read_log(path, length, checksum)) if length else 0
        self._file = path.open("ab")
        self._file.truncate(length)
        if not length:
            self._write(",".join(STEP_TYPES))

    def add(self, *values: float) -> None:
        """Append one line, in the order of STEP_TYPES."""
        self._write(",".join(map(repr, values)))

    def _write(self, line: str) -> None:
        content = f"{line}\n".encode()
        self._sum = zlib.crc32(content, self._sum)
        self._file.write(content)

    def flush(self) -> None:
        """Hand buffered lines to the system."""
        self._file.flush()

    def sync(self) -> dict[str, int]:
        """Flush all lines to the disk, and return the file's length in bytes and its CRC-32, for
        the run's state."""
        self._file.flush()
        os.fsync(self._file.fileno())
        return {"log_bytes": self._file.tell(), "log_sum": self._sum}

    def close(self) -> None:
        """Flush and close the file."""
        self._file.close()


def _read_log(path: Path, length: int, checksum: int) -> bytes:
    """Read the first `length` bytes of a log. Raises InputError where the file is shorter or has
    another checksum."""
    found = path.read_bytes()[:length] if path.exists() else b""
    if len(found) < length:
        raise InputError(
            f"{path} has {len(found)} bytes where the saved state had written {length}: put the"
            " file back"
        )
    if zlib.crc32(found) != checksum:
        raise InputError(
            f"{path} is damaged (its checksum is not the one in the run's state); remove the run"
        )
    return found


def read_record(run: Path) -> tuple[dict[str, Any], pa.Table]:
    """Read a run's row of the table `runs` and its rows of `steps`, up to its newest state; without
    a state, nothing.

    Raises InputError where the state or `steps.csv` is damaged.
    """
    values = newest_values(run / "state", "log_bytes", "log_sum", "origin", *RECORDED)
    if values is None:
        return {}, pa.table({"run_id": pa.array([], pa.string())})
    log = _read_log(run / "steps.csv", values["log_bytes"], values["log_sum"])
    types = arrow_csv.ConvertOptions(column_types=pa.schema(list(STEP_TYPES.items())))
    steps = arrow_csv.read_csv(pa.BufferReader(log), convert_options=types)
    run_id = pa.array([values["origin"]["run_id"]] * len(steps), pa.string())
    return {name: values[name] for name in RECORDED}, steps.add_column(0, "run_id", run_id)


def screening_loss(run: Path, stop_at: int) -> float:
    """Average the training loss over the final tenth of the tokens up to `stop_at`; the run may
    have gone further."""
    logged = [(row["tokens"], row["loss"]) for row in read_record(run)[1].to_pylist()]
    ended = next(
        (number for number, (tokens, _) in enumerate(logged) if tokens >= stop_at), len(logged)
    )
    logged = logged[: ended + 1]
    return fmean(loss for tokens, loss in logged if tokens >= 0.9 * logged[-1][0])


def choose_seed(runs: Mapping[int, Path], stop_at: int) -> int:
    """Choose the seed that is trained to the end: the one with the lowest loss before `stop_at`
    tokens (section 4.1).

    `runs` are the run folders by seed; of equal losses the lower seed is chosen. Raises what
    `read_record` raises.
    """
    return min(runs, key=lambda seed: (screening_loss(runs[seed], stop_at), seed))


def mean_losses(rows: Sequence[Mapping[str, Any]]) -> dict[tuple[str, int, float], float]:
    """Average the losses that a search for learning rates measured over its seeds, by variant,
    depth and rate.

    `rows` are those of the table `tuning`. A rate at which any training failed, and so has no loss,
    is left out.
    """
    losses: dict[tuple[str, int, float], list[float | None]] = defaultdict(list)
    for row in rows:
        losses[row["variant"], row["depth"], row["learning_rate"]].append(row["loss"])
    return {key: fmean(found) for key, found in losses.items() if None not in found}


def best_rates(rows: Sequence[Mapping[str, Any]]) -> dict[tuple[str, int], float]:
    """Find for each variant and depth the learning rate of the lowest mean loss, the lower rate of
    equal ones."""
    means = sorted(((loss, *key) for key, loss in mean_losses(rows).items()), reverse=True)
    return {(variant, depth): rate for _, variant, depth, rate in means}  # the lowest comes last


def further_rates(grid: Sequence[float], rows: Sequence[Mapping[str, Any]]) -> list[float]:
    """Return the rates by which a rising grid grows: one beyond each edge at which a model has its
    best rate.

    It lies as far beyond as the edge's neighbour within: [1, 2, 8] grows by 0.5, by 32, by both or
    not at all.
    """
    best = set(best_rates(rows).values())
    beyond = {grid[0]: grid[0] ** 2 / grid[1], grid[-1]: grid[-1] ** 2 / grid[-2]}
    return [float(f"{further:.6g}") for edge, further in beyond.items() if edge in best]
