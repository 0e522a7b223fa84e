"""Write the log of a run's steps, and read the rows of `runs` and `steps` that a run has recorded.

The log is `steps.csv` in the run's folder, a line for each optimiser step:

    step,tokens,loss,learning_rate,gradient_norm,seconds
    1,504,6.0312,0.0004,1.3711,0.014

Rows end with the newest state, which holds the length and the checksum of the log: what a bad disk
has changed is seen.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping
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
# values of a state that the table `runs` has
RECORDED = ("tokens", "seconds", "device", "tokens_per_second", "mfu", "stream_hash")


class StepLog:
    """Append a buffered line to `steps.csv` for each step.

    A resumed run cuts off the lines that are newer than its state.
    """

    def __init__(self, path: Path, length: int, checksum: int = 0) -> None:
        """Open the log and cut the file to `length` bytes, whose CRC-32 is `checksum`.

        A new log has length 0. Raises InputError where the file is shorter, or has another
        checksum.
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
        """Flush all lines to the disk; return the file's length in bytes and its CRC-32."""
        self._file.flush()
        os.fsync(self._file.fileno())
        return {"log_bytes": self._file.tell(), "log_sum": self._sum}

    def close(self) -> None:
        """Flush and close the file."""
        self._file.close()


def _read_log(path: Path, length: int, checksum: int) -> bytes:
    """Read the first `length` bytes of a log.

    Raises InputError where the file is shorter or has another checksum.
    """
    content = path.read_bytes()[:length] if path.exists() else b""
    if len(content) < length:
        raise InputError(
            f"{path} has {len(content)} bytes, but the saved state had written {length}; restore"
            " the file"
        )
    if zlib.crc32(content) != checksum:
        raise InputError(
            f"{path} is damaged (its checksum is not the one in the run's state); remove the run"
        )
    return content


def read_record(run: Path) -> tuple[dict[str, Any], pa.Table]:
    """Read a run's row of the table `runs` and its rows of `steps`, up to its newest state.

    Without a state there are none. Raises InputError where the state or `steps.csv` is damaged.
    """
    values = newest_values(run / "state", "log_bytes", "log_sum", "origin", *RECORDED)
    if values is None:
        return {}, pa.table({"run_id": pa.array([], pa.string())})
    log = _read_log(run / "steps.csv", values["log_bytes"], values["log_sum"])
    types = arrow_csv.ConvertOptions(column_types=pa.schema(list(STEP_TYPES.items())))
    steps = arrow_csv.read_csv(pa.BufferReader(log), convert_options=types)
    run_id = pa.array([values["origin"]["run_id"]] * len(steps), pa.string())
    return {name: values[name] for name in RECORDED}, steps.add_column(0, "run_id", run_id)


def devices_of(run: Path) -> int | None:
    """Return how many ranks trained a run last; None where no state says that, as older ones."""
    values = newest_values(run / "state")
    return values.get("ranks") if values else None


def screening_loss(run: Path, stop_at: int) -> float:
    """Average the training loss over the final tenth of the tokens up to `stop_at`.

    The run may have been trained further.
    """
    _, steps = read_record(run)
    screened: list[tuple[int, float]] = []  # tokens and loss, up to the first step at `stop_at`
    for row in steps.to_pylist():
        screened.append((row["tokens"], row["loss"]))
        if row["tokens"] >= stop_at:
            break
    last_tokens, _ = screened[-1]
    return fmean(loss for tokens, loss in screened if tokens >= 0.9 * last_tokens)


def choose_seed(runs: Mapping[int, Path], stop_at: int) -> int:
    """Choose the seed that is trained to the end: that of the lowest screening loss (section 4.1).

    `runs` are the run folders by seed; of equal losses the lower seed is chosen. Raises what
    `read_record` raises.
    """
    return min(runs, key=lambda seed: (screening_loss(runs[seed], stop_at), seed))
