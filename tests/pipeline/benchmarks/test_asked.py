"""What lm-eval asks is what decontamination looks for, whatever a file or a study says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dreamer_study.pipeline.benchmarks.asked import check_asked
from dreamer_study.pipeline.benchmarks.benchmark import Benchmark
from dreamer_study.pipeline.benchmarks.items import benchmark_items, task_specifications
from dreamer_study.pipeline.benchmarks.table import resolve_benchmark
from dreamer_study.pipeline.errors import InputError

ENTRY = {"name": "sums", "task": "sums", "repository": "me/sums", "metric": "exact_match"}
ROWS = [{"question": f"What is {number} plus 1?", "answer": str(number + 1)} for number in range(5)]


def _benchmark(**changes: object) -> Benchmark:
    return resolve_benchmark({**ENTRY, **changes})


def _write(folder: Path, rows: list[dict[str, Any]], name: str = "test.jsonl") -> Path:
    (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def _check(benchmark: Benchmark, folder: Path) -> None:
    specifications = task_specifications(benchmark, folder, folder / "texts")
    check_asked(benchmark, specifications, benchmark_items(benchmark, folder))


@pytest.mark.parametrize("question", ["question", "concat(question, ' ', answer)"])
def test_questions_that_are_asked_as_they_are_looked_for_pass(
    tmp_path: Path, question: str
) -> None:
    _check(_benchmark(question=question), _write(tmp_path, ROWS))


def test_a_second_column_of_the_name_in_other_letters_is_not_taken(tmp_path: Path) -> None:
    rows = [{"Question": f"Decoy number {number}", **row} for number, row in enumerate(ROWS)]
    folder = _write(tmp_path, rows)
    items = benchmark_items(_benchmark(), folder)
    assert items["question"].to_pylist() == [row["question"] for row in ROWS]
    _check(_benchmark(), folder)


@pytest.mark.parametrize(
    ("questions", "first"),
    [
        (["2024-01-02", "2024-01-03"], "2024-01-02 00:00:00"),  # which becomes a time
        (["one", "two", "three"], ""),
    ],
)
def test_questions_that_differ_are_refused(
    tmp_path: Path, questions: list[str], first: str
) -> None:
    folder = _write(tmp_path, [{"question": question, "answer": "1"} for question in questions])
    benchmark = _benchmark()
    items = benchmark_items(benchmark, folder)
    if not first:  # a row that only decontamination has
        _write(tmp_path, [{"question": question, "answer": "1"} for question in questions[:2]])
    specifications = task_specifications(benchmark, folder, folder / "texts")
    with pytest.raises(InputError, match=f"lm-eval would read '{first}', and decontamination"):
        check_asked(benchmark, specifications, items)


def test_texts_are_compared_too(tmp_path: Path) -> None:
    entry = {"name": "book", "repository": "me/book", "text": "text"}
    rows = [{"text": f"Chapter {number}. It rains."} for number in range(30)]
    folder = _write(tmp_path, rows)
    _check(resolve_benchmark(entry), folder)
    _check(resolve_benchmark({**entry, "rows": 3}), folder)


@pytest.mark.parametrize(
    "options",
    [
        {"data_files": {"test": "other.jsonl"}},
        {"data_files": "http://127.0.0.1:9/other.jsonl"},
        {"data_dir": "elsewhere"},
    ],
)
def test_a_study_names_no_files_behind_the_benchmark(options: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="would evaluate other files than those that are kept out"):
        _benchmark(overrides={"dataset_kwargs": options})


def test_other_options_of_the_data_leave_the_files_as_they_are(tmp_path: Path) -> None:
    benchmark = _benchmark(overrides={"dataset_kwargs": {"trust_remote_code": True}})
    _write(tmp_path, ROWS)
    (specification,) = task_specifications(benchmark, tmp_path, tmp_path / "texts")
    files = specification["overrides"]["dataset_kwargs"]["data_files"]
    assert files == {"test": [str(tmp_path / "test.jsonl")]}
