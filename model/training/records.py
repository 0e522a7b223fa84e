"""What a run tells while it trains: a line per step, the results' tables, and a progress file for whoever watches."""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.errors import InputError

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


class StepLog:
    """`steps.csv`: a line per logged step, buffered. A resumed run cuts off what was written after its state."""

    def __init__(self, path: Path, length: int) -> None:
        """Opens the log and cuts it to `length` bytes, 0 for a new one. Raises InputError if it is shorter."""
        self._path = path
        self._file = path.open("ab")
        found = os.fstat(self._file.fileno()).st_size
        if found < length:
            raise InputError(f"{path} has {found} bytes where the saved state had written {length}: put the file back")
        self._file.truncate(length)
        if not length:
            self._file.write((",".join(STEP_TYPES) + "\n").encode())

    def add(self, *values: float) -> None:
        """One line, in the order of STEP_TYPES."""
        self._file.write((",".join(map(repr, values)) + "\n").encode())

    def flush(self) -> None:
        """Hand what is buffered to the system."""
        self._file.flush()

    def sync(self) -> int:
        """Put everything on the disk; its length in bytes."""
        self._file.flush()
        os.fsync(self._file.fileno())
        return self._file.tell()

    def write_table(self, run_id: str, path: Path) -> None:
        """The flushed lines as a Parquet file with the columns of the table `steps`."""
        import pyarrow as pa
        from pyarrow import csv

        self.flush()
        types = csv.ConvertOptions(column_types=pa.schema(list(STEP_TYPES.items())))
        table = csv.read_csv(self._path, convert_options=types)
        write_parquet(table.add_column(0, "run_id", pa.array([run_id] * len(table), pa.string())), path)

    def close(self) -> None:
        """Flush and close."""
        self._file.close()


def write_run_table(row: Mapping[str, Any], path: Path) -> None:
    """One row with the columns of the table `runs`."""
    import pyarrow as pa

    assert row.keys() == RUN_TYPES.keys(), sorted(row.keys() ^ RUN_TYPES.keys())
    write_parquet(pa.Table.from_pylist([dict(row)], schema=pa.schema(list(RUN_TYPES.items()))), path)


def write_parquet(table: Any, path: Path) -> None:
    """Write a pyarrow table beside `path` and rename it, so that readers see the old file or the new one."""
    import pyarrow.parquet as pq

    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(path.name + ".partial")
    pq.write_table(table, beside, compression="zstd")
    os.replace(beside, path)


class Progress:
    """`progress.json`, and the line for a terminal."""

    def __init__(self, path: Path, run_id: str, target: int, window: int = 20) -> None:
        self._path, self._run_id, self._target = path, run_id, target
        self._past: deque[tuple[float, int]] = deque(maxlen=window)  # times and tokens the rate is taken over

    def write(
        self,
        state: str,
        now: float,
        step: int,
        tokens: int,
        loss: float | None,
        flops_share: float | None,
        note: str = "",
    ) -> str:
        """Rewrite the file; return the line.

        `now` is in seconds of any clock; `flops_share` is the MFU at one token per second, None where unknown; `note`
        is what else there is to say.
        """
        self._past.append((now, tokens))
        (then, before), left = self._past[0], max(0, self._target - tokens)
        rate = (tokens - before) / (now - then) if now > then else None
        mfu = rate * flops_share if rate and flops_share else None
        values = {
            "tokens": tokens,
            "target": self._target,
            "loss": loss,
            "tokens_per_second": rate,
            "seconds_left": left / rate if rate else None,
            "mfu": mfu,
            "step": step,
            "state": state,
            "note": note,
        }
        beside = self._path.with_name(self._path.name + ".partial")
        beside.write_text(json.dumps(values))
        os.replace(beside, self._path)
        parts = [
            f"{self._run_id}  step {step:,}  {short(tokens)} of {short(self._target)} tokens",
            "" if loss is None else f"loss {loss:.3f}",
            f"{short(rate)} tokens/s" if rate else "",
            f"MFU {mfu:.1%}" if mfu else "MFU unknown",
            f"{duration(left / rate)} left" if rate and left else "",
            state if state != "running" else "",
            note,
        ]
        return "  ".join(part for part in parts if part)


def short(number: float) -> str:
    """1234567 as '1.23M'."""
    for size, unit in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g}{unit}"
    return f"{number:.3g}"


def duration(seconds: float) -> str:
    """90.4 as '1m 30s'."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h {minutes}m" if hours else f"{minutes}m {seconds}s" if minutes else f"{seconds}s"
