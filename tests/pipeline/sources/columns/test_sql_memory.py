"""The SQL of a column takes no more memory than `data.memory` leaves, and ends with a line."""

import resource
import subprocess
import sys
import time

import pyarrow as pa
import pytest

from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.sources.columns.sql import bind, evaluate
from dreamer_study.pipeline.storage.memory import share_of_memory

pytestmark = pytest.mark.slow

SHARE = 400_000_000  # bytes
TABLE = pa.table({"q": ["some text of a row"] * 4000, "n": list(range(4000))})


def texts(expression: str) -> pa.Table:
    with share_of_memory(SHARE):
        return evaluate([bind(expression, TABLE.schema)], TABLE)


def most_memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@pytest.mark.parametrize(
    "expression",
    [
        "repeat(q, 200000)",
        "unnest(range(1000000000))::varchar",  # computed when it is bound
        "unnest(range(n, n + 1000000))::varchar",  # its result has 4 billion rows
        "list_transform(range(n, n + 1000000), lambda x: x::varchar)::varchar",
    ],
)
def test_sql_that_asks_for_more_than_its_share_is_refused(expression: str) -> None:
    assert texts("upper(q)").num_rows == TABLE.num_rows  # what is loaded once is not counted
    before = most_memory()
    began = time.monotonic()
    with pytest.raises(InputError, match="its SQL takes too much memory for one block of rows"):
        texts(expression)
    assert most_memory() - before < 3 * SHARE
    assert time.monotonic() - began < 60
    assert texts("upper(q)").num_rows == TABLE.num_rows, "the next rows are read"


THREADS = """
import os
import pyarrow as pa
from dreamer_study.pipeline.sources.columns.sql import bind, evaluate
rows = pa.table({"a": ["x"] * 1000})
before = len(os.listdir("/proc/self/task"))
evaluate([bind("upper(a)", rows.schema)], rows)
print(len(os.listdir("/proc/self/task")) - before)
"""


def test_sql_has_no_thread_of_its_own() -> None:
    """One that gave memory back while a reader's limit held ended the process by a signal."""
    done = subprocess.run(
        [sys.executable, "-c", THREADS], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "0"
