"""Compare the questions that an evaluation asks with those that decontamination looks for.

Our readers read a benchmark's files for decontamination, and the `datasets` library reads the same
files for lm-eval. Where the two differ in a row, a model would be asked what may stand in its data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dreamer_study.pipeline.benchmarks.benchmark import Benchmark
from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.sources.columns.names import named_columns
from dreamer_study.pipeline.sources.columns.sql import bind, evaluate
from dreamer_study.pipeline.storage.digests import digest

LONGEST_SHOWN = 60  # characters of a question in a message


def check_asked(
    benchmark: Benchmark, specifications: Sequence[Mapping[str, Any]], items: pa.Table
) -> None:
    """Raise InputError where a task would ask other questions than those of `items`.

    `specifications` are those of the benchmark's tasks, and `items` its rows for decontamination.
    Questions are compared by their number and a digest.
    """
    if benchmark.text and not is_read_by_lm_eval(benchmark):
        return
    for specification in specifications:
        task = specification["task"]
        asked = [_plain(text) for text in _asked(benchmark, specification)]
        looked_for = [_plain(text) for text in _questions(items, task)]
        if (len(asked), digest(asked)) == (len(looked_for), digest(looked_for)):
            continue
        pairs = zip_longest(asked, looked_for, fillvalue="")
        number, (one, other) = next(
            (number, pair) for number, pair in enumerate(pairs) if pair[0] != pair[1]
        )
        raise InputError(
            f"benchmark {benchmark.name!r}: of item {task}/{number} lm-eval would read"
            f" {one[:LONGEST_SHOWN]!r}, and decontamination {other[:LONGEST_SHOWN]!r}; write the"
            " file so that both read one question, such as JSON lines of plain texts"
        )


def is_read_by_lm_eval(benchmark: Benchmark) -> bool:
    """Tell whether the texts of a perplexity are read from the files of the data set themselves.

    Else lm-eval reads a file that we have written.
    """
    return benchmark.rows is None and benchmark.text.isidentifier()


def _questions(items: pa.Table, task: str) -> list[str]:
    """List the questions of a task's evaluated split, in order."""
    prefix = f"{task}/"
    rows = zip(items["id"].to_pylist(), items["question"].to_pylist(), strict=True)
    return [
        question
        for identity, question in rows
        if identity.startswith(prefix) and identity.removeprefix(prefix).isdecimal()
    ]


def _asked(benchmark: Benchmark, specification: Mapping[str, Any]) -> list[str]:
    """Read the questions of a task as its evaluation does."""
    import datasets  # takes a second

    datasets.config.HF_UPDATE_DOWNLOAD_COUNTS = False  # a request for every file
    datasets.disable_progress_bars()
    with TemporaryDirectory() as cache:
        rows = datasets.load_dataset(
            specification["dataset_path"],
            split=benchmark.split,
            cache_dir=cache,
            keep_in_memory=True,
            **specification["overrides"]["dataset_kwargs"],
        )
        table = rows.with_format("arrow")[:]
    expression = benchmark.text or benchmark.question
    columns = named_columns((expression,), table.schema)
    texts = evaluate([bind(expression, columns)], table.select(columns.names)).column(0)
    return pc.fill_null(texts.cast(pa.string()), "").to_pylist()


def _plain(text: str) -> str:
    """Leave out how white space is written."""
    return " ".join(text.split())
