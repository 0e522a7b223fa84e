"""Print what a command found as one JSON document, for scripts (`--json`).

docs/command.md lists the fields of each document.
"""

from __future__ import annotations

import dataclasses
import json
import math
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from typing import Any, TextIO

import numpy as np
import pandas as pd

_outputs: list[TextIO] = []  # the stream of the document, while other prints go to standard error


@contextmanager
def nothing_else_printed() -> Iterator[None]:
    """Send to standard error what is printed besides a document, as the code of a model may."""
    _outputs.append(sys.stdout)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        _outputs.pop()


def print_document(**fields: Any) -> None:
    """Print fields as a JSON object on standard output."""
    text = json.dumps(plain(fields), indent=2, ensure_ascii=False, allow_nan=False)
    print(text, file=_outputs[-1] if _outputs else sys.stdout, flush=True)


def plain(value: Any) -> Any:
    """Turn a value into JSON; missing values and numbers that are not finite become null.

    The rows of a data frame become objects.

    >>> plain({"seed": np.int64(1), "low": math.nan, "folder": Path("runs")})
    {'seed': 1, 'low': None, 'folder': 'runs'}
    """
    if isinstance(value, pd.DataFrame):
        return [plain(row) for row in value.to_dict("records")]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if hasattr(value, "_asdict"):  # a named tuple
        value = value._asdict()
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [plain(entry) for entry in value]
    return _scalar(value)


def _scalar(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or value is pd.NA or value is pd.NaT:
        return None
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str | bool | int):
        return value
    return str(value)
