"""A benchmark's items for decontamination, and its leaf tasks for evaluation by lm-eval."""

from __future__ import annotations

import hashlib
import heapq
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dreamer_study.pipeline.benchmarks.asked import is_read_by_lm_eval
from dreamer_study.pipeline.benchmarks.benchmark import Benchmark
from dreamer_study.pipeline.errors import InputError, placing
from dreamer_study.pipeline.sources.columns.names import named_columns
from dreamer_study.pipeline.sources.columns.sql import bind, evaluate
from dreamer_study.pipeline.sources.files.readers import open_rows
from dreamer_study.pipeline.sources.files.table_rows import CsvRows
from dreamer_study.pipeline.sources.files.text_files import kind_of_file
from dreamer_study.pipeline.sources.repositories.splits import find_split, has_splits
from dreamer_study.pipeline.sources.rows import unfit
from dreamer_study.pipeline.storage.digests import digest, file_digest
from dreamer_study.pipeline.storage.files import atomic_file, write_text_atomically
from dreamer_study.pipeline.storage.integrity import read_sealed, sealed

TEXT_TASK = Path(__file__).with_name("text_perplexity.yaml")
# Builders of `datasets`; all else is "json".
LOADERS = {"parquet": "parquet", "arrow": "arrow", "csv": "csv", "tsv": "csv"}
SAMPLED_FROM = 20  # a sample of n texts is drawn from the first 20 n rows
ITEMS = pa.schema(
    [
        (name, pa.string())
        for name in ("id", "benchmark", "question", "answer", "options", "solution")
    ]
)
_LETTERED = re.compile(r"(?:^|[\s,]+)[a-z] \) ")  # "a ) 38 , b ) 27.675"


def benchmark_items(benchmark: Benchmark, folder: Path | str) -> pa.Table:
    """Read the items that must not be in the training data, as the strings of `ITEMS`.

    The id of an item of the evaluated split is "<leaf task>/<number>", as in the results; other
    splits give "<leaf task>/<split>/<number>". A text counts as a question. Options stand one on a
    line. Raises InputError for a missing evaluated split or column.
    """
    if benchmark.text:
        task = next(iter(benchmark.tasks.values()))
        texts = [text for _, text in _texts(benchmark, folder)]
        ids = [f"{task}/{number}" for number in range(len(texts))]
        names = [benchmark.name] * len(ids)
        empty = [""] * len(ids)
        return pa.table([ids, names, texts, empty, empty, empty], schema=ITEMS)
    wanted = (benchmark.question, benchmark.answer, benchmark.options, benchmark.solution)
    tables = []
    for configuration, task in benchmark.tasks.items():
        for split in benchmark.splits:
            if split != benchmark.split and not has_splits(folder, [(configuration, split)]):
                continue
            prefix = f"{task}/" if split == benchmark.split else f"{task}/{split}/"
            number = 0
            blocks = _columns(benchmark, folder, configuration, split, wanted)
            for question, answer, options, solution in blocks:
                ids = [f"{prefix}{row}" for row in range(number, number + len(question))]
                number += len(ids)
                options = [_LETTERED.sub("\n", text).strip() for text in options]
                columns = [ids, [benchmark.name] * len(ids), question, answer, options, solution]
                tables.append(pa.table(columns, schema=ITEMS))
    return pa.concat_tables(tables) if tables else ITEMS.empty_table()


def task_specifications(
    benchmark: Benchmark,
    folder: Path | str,
    output: Path | str,
    *,
    beside: Path = Path(),
    mirror: Path | None = None,
) -> list[dict[str, Any]]:
    """Describe each leaf task for `model/evaluation/lm_eval_definitions.py`: JSON-able,
    with absolute paths.

    `output` is the folder for the texts of a benchmark with `rows`, or whose `text` is more than a
    column; each text is written once. Task files lie `beside` the study (`task_file`). Raises
    InputError when the data or a task file is missing, and where overrides name files.
    """
    folder = Path(folder).resolve()
    specifications = []
    for configuration, task in benchmark.tasks.items():
        place, overrides = _data(benchmark, folder, configuration, output)
        specifications.append(
            {
                "benchmark": benchmark.name,
                "task": task,
                "dataset_path": place,
                "yaml": str(TEXT_TASK) if benchmark.text else task_file(benchmark, beside, mirror),
                "overrides": _overrides(benchmark, overrides),
                "metric": benchmark.metric,
                "filter": benchmark.filter,
                "chance": benchmark.chance,
            }
        )
    return specifications


def _overrides(benchmark: Benchmark, ours: dict[str, Any]) -> dict[str, Any]:
    """Merge a benchmark's overrides into ours, which name the files."""
    options = benchmark.overrides.get("dataset_kwargs") or {}
    merged = {**ours, "num_fewshot": 0, **benchmark.overrides}
    merged["dataset_kwargs"] = {**ours["dataset_kwargs"], **options}
    return merged


def _data(
    benchmark: Benchmark, folder: Path, configuration: str, output: Path | str
) -> tuple[str, dict[str, Any]]:
    """Name the split's files for `datasets`: a card might lead the library to others."""
    files = find_split(folder, configuration, benchmark.split)
    overrides: dict[str, Any] = {"test_split": benchmark.split, "dataset_name": None}
    if benchmark.text and not is_read_by_lm_eval(benchmark):
        files = [_write_texts(benchmark, folder, files, output)]
        overrides["doc_to_target"] = "{{text}}"
    elif benchmark.text:
        overrides["doc_to_target"] = f"{{{{{benchmark.text}}}}}"
    arguments: dict[str, Any] = {"data_files": {benchmark.split: [str(path) for path in files]}}
    reader = open_rows(files[0])
    if isinstance(reader, CsvRows):
        arguments["delimiter"] = reader.delimiter
    overrides["dataset_kwargs"] = arguments
    return LOADERS.get(kind_of_file(files[0].name), "json"), overrides


def _write_texts(benchmark: Benchmark, folder: Path, files: list[Path], output: Path | str) -> Path:
    """Write the texts of a benchmark, unless they are there.

    Raises InputError where the file was changed afterwards.
    """
    sizes = [(path.name, path.stat().st_size) for path in files]
    key = digest([benchmark.repository, benchmark.revision, benchmark.text, benchmark.rows, sizes])
    path = Path(output).resolve() / f"{benchmark.name}-{key}.jsonl"
    note = path.with_suffix(".json")
    if not note.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(path, shared=True) as partial, partial.open("w", encoding="utf-8") as file:
            for row, text in _texts(benchmark, folder):
                file.write(json.dumps({"row": row, "text": text}) + "\n")
        write_text_atomically(note, sealed({"blake2b": file_digest(path)}), shared=True)
    if not path.exists() or file_digest(path) != read_sealed(note)["blake2b"]:
        raise InputError(
            f"{path} is not as it was written; remove {note}, and the next run writes both again"
        )
    return path


def _texts(benchmark: Benchmark, folder: Path | str) -> list[tuple[int, str]]:
    """Read the texts of a perplexity benchmark with their row numbers.

    These are all, or the `rows` with the smallest hashes.
    """
    configuration = next(iter(benchmark.tasks))
    limit = benchmark.rows * SAMPLED_FROM if benchmark.rows else None
    parts = _columns(benchmark, folder, configuration, benchmark.split, (benchmark.text,), limit)
    texts = enumerate(text for (column,) in parts for text in column)
    if benchmark.rows is None:
        return list(texts)
    hashed = (
        (hashlib.blake2b(text.encode(), digest_size=16).digest(), row, text)
        for row, text in texts
        if text.strip()
    )
    return sorted((row, text) for _, row, text in heapq.nsmallest(benchmark.rows, hashed))


def _columns(
    benchmark: Benchmark,
    folder: Path | str,
    configuration: str,
    split: str,
    wanted: tuple[str, ...],
    limit: int | None = None,
) -> Iterator[list[list[str]]]:
    """Evaluate column expressions over a split, block by block.

    The files divide `limit` rows evenly.
    """
    files = find_split(folder, configuration, split)
    of_file = None if limit is None else -(-limit // len(files))  # rounded up
    for path in files:
        reader = open_rows(path)
        if not reader.schema.names:
            continue
        where = f"benchmark {benchmark.name!r}: {path}"
        try:
            columns = named_columns(wanted, reader.schema)
            bound = [bind(text or "''", columns) for text in wanted]
        except InputError as error:
            raise InputError(
                f"benchmark {benchmark.name!r}: {unfit(reader, error)}; name the benchmark's"
                " question and answer"
            ) from None
        for block in reader.blocks(columns, of_file, " ".join(wanted)):
            # a dropped row would shift the numbers of later items
            for number, _ in (*block.malformed, *block.not_text):
                if not benchmark.text:
                    raise InputError(
                        f"{where}: row {number} is malformed; mend it, or fetch the file again"
                    )
            with placing(where):
                texts = evaluate(bound, block.table).columns
            yield [pc.fill_null(text.cast(pa.string()), "").to_pylist() for text in texts]


def task_file(benchmark: Benchmark, beside: Path, mirror: Path | None) -> str | None:
    """Find the task file of a benchmark below the study's folder `beside`.

    Data bring no definitions of tasks. Raises InputError for a file that is missing, lies elsewhere
    (also through a link), or lies in the mirror.
    """
    if benchmark.yaml is None:
        return None
    where = f"benchmark {benchmark.name!r}: yaml {benchmark.yaml}"
    home = beside.resolve()
    path = (home / benchmark.yaml).resolve()
    if not path.is_relative_to(home):
        raise InputError(f"{where}: it is not below {home}; put the task file beside the study")
    if mirror is not None and path.is_relative_to(mirror.resolve()):
        raise InputError(
            f"{where}: it lies among the data in {mirror}; put the task file beside the study"
        )
    if not path.is_file():
        raise InputError(f"{where}: no task file {path}")
    return str(path)
