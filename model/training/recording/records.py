"""Write what a run records while it trains: `steps.csv`, the Parquet tables `steps` and `runs`, and `progress.json`."""

from __future__ import annotations

import csv
import json
import os
import socket
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv as arrow_csv

from pipeline.errors import InputError
from pipeline.storage.files import atomic_file, write_text_atomically

STEP_TYPES = {
    "step": "int64",
    "tokens": "int64",
    "loss": "float64",
    "learning_rate": "float64",
    "gradient_norm": "float64",
    "seconds": "float64",
}
RUN_TYPES = {
    "run_id": "string",
    "seed": "int64",
    "status": "string",
    "tokens": "int64",
    "seconds": "float64",
    "device": "string",
    "tokens_per_second": "float64",
    "mfu": "float64",
    "stream_hash": "string",
}

FEWEST_LOSSES = 10
"""Losses that a choice between seeds needs, where `log_every` leaves out steps: the loss of one batch is too noisy."""


class StepLog:
    """Append a buffered line to `steps.csv` for each logged step. A resumed run cuts off lines newer than its state."""

    def __init__(self, path: Path, length: int) -> None:
        """Open the log and cut it to `length` bytes, 0 for a new one. Raises InputError if the file is shorter."""
        self._path = path
        self._file = path.open("ab")
        found = os.fstat(self._file.fileno()).st_size
        if found < length:
            raise InputError(f"{path} has {found} bytes where the saved state had written {length}: put the file back")
        self._file.truncate(length)
        if not length:
            self._file.write((",".join(STEP_TYPES) + "\n").encode())

    def add(self, *values: float) -> None:
        """Append one line, in the order of STEP_TYPES."""
        self._file.write((",".join(map(repr, values)) + "\n").encode())

    def flush(self) -> None:
        """Hand buffered lines to the system."""
        self._file.flush()

    def sync(self) -> int:
        """Flush all lines to the disk, and return the file's length in bytes."""
        self._file.flush()
        os.fsync(self._file.fileno())
        return self._file.tell()

    def write_table(self, run_id: str, path: Path) -> None:
        """Write the logged steps as a Parquet file with the columns of the table `steps`."""
        self.flush()
        types = arrow_csv.ConvertOptions(column_types=pa.schema(list(STEP_TYPES.items())))
        table = arrow_csv.read_csv(self._path, convert_options=types)
        _write_parquet(table.add_column(0, "run_id", pa.array([run_id] * len(table), pa.string())), path)

    def close(self) -> None:
        """Flush and close the file."""
        self._file.close()


def screening_loss(run: Path, stop_at: int) -> float:
    """Average the training loss over the final tenth of the tokens up to `stop_at`, from a run's `steps.csv`.

    The run may have gone further. Raises InputError where `log_every` leaves fewer than FEWEST_LOSSES of that tenth.
    """
    path = run / "steps.csv"
    with path.open(newline="") as file:
        logged = [(int(row["step"]), int(row["tokens"]), float(row["loss"])) for row in csv.DictReader(file)]
    ended = next((number for number, (_, tokens, _) in enumerate(logged) if tokens >= stop_at), len(logged))
    logged = logged[: ended + 1]
    late = [loss for _, tokens, loss in logged if tokens >= 0.9 * logged[-1][1]]
    every_step = bool(logged) and len(logged) == logged[-1][0]
    if len(late) < FEWEST_LOSSES and not every_step:
        raise InputError(
            f"{path}: of the final tenth {len(late)} losses are logged, too few to choose between seeds; "
            "lower training.log_every, and remove the folders of these runs to start them over"
        )
    return sum(late) / len(late)


def choose_seed(runs: Mapping[int, Path], stop_at: int) -> int:
    """Choose the seed that is trained to the end: the one with the lowest loss before `stop_at` tokens (section 4.1).

    `runs` are the run folders by seed; of equal losses the lower seed is chosen. Raises what `screening_loss` raises.
    """
    return min(runs, key=lambda seed: (screening_loss(runs[seed], stop_at), seed))


def write_run_table(row: Mapping[str, Any], path: Path) -> None:
    """Write a Parquet file with one row, with the columns of the table `runs`."""
    assert row.keys() == RUN_TYPES.keys(), sorted(row.keys() ^ RUN_TYPES.keys())
    _write_parquet(pa.Table.from_pylist([dict(row)], schema=pa.schema(list(RUN_TYPES.items()))), path)


def _write_parquet(table: pa.Table, path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    with atomic_file(path, durable=False) as partial:  # steps.csv and the state can rebuild it
        pq.write_table(table, partial, compression="zstd")


class Progress:
    """Write `progress.json`, and describe a run's progress in a line for a terminal."""

    def __init__(self, path: Path, run_id: str, target: int, flops_share: float | None, ranks: int = 1) -> None:
        """`target` is in tokens; `flops_share` is the MFU at one token per second, None where unknown."""
        self._ranks = ranks
        self._path, self._run_id, self._target, self._flops_share = path, run_id, target, flops_share
        self._past: deque[tuple[float, int]] = deque(maxlen=20)  # times and tokens that the rate is taken over

    def write(self, state: str, now: float, step: int, tokens: int, loss: float | None, note: str = "") -> str:
        """Rewrite the file and return the line; `now` is in seconds of any clock, `note` a remark in words."""
        self._past.append((now, tokens))
        (then, before), left = self._past[0], max(0, self._target - tokens)
        rate = (tokens - before) / (now - then) if now > then else None
        mfu = rate * self._flops_share if rate and self._flops_share else None
        values = {
            "tokens": tokens,
            "target": self._target,
            "loss": loss,
            "tokens_per_second": rate,
            "seconds_left": left / rate if rate else None,
            "mfu": mfu,
            "ranks": self._ranks,
            "step": step,
            "state": state,
            "note": note,
            "process": os.getpid(),
            "machine": socket.gethostname(),
        }
        write_text_atomically(self._path, json.dumps(values), durable=False)
        words = [
            f"{self._run_id}  step {step:,}  {_short(tokens)} of {_short(self._target)} tokens",
            "" if loss is None else f"loss {loss:.3f}",
            f"{_short(rate)} tokens/s" if rate else "",
            f"MFU {mfu:.1%}" if mfu else "MFU unknown",
            f"{_duration(left / rate)} left" if rate and left else "",
            state if state != "running" else "",
            note,
        ]
        return "  ".join(word for word in words if word)


def _short(number: float) -> str:
    """Write 1234567 as '1.23M'."""
    for size, unit in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g}{unit}"
    return f"{number:.3g}"


def _duration(seconds: float) -> str:
    """Write 90.4 as '1m 30s'."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h {minutes}m" if hours else f"{minutes}m {seconds}s" if minutes else f"{seconds}s"
