"""What curation lost of a source is said, and a source of which nothing is left ends the study."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from flows.commands.cli import main
from flows.losses import check_kept, repetition, unmarked, unmarked_warnings, warnings
from flows.plan import Plan
from flows.prepare import prepare_data
from flows.study.loading import load_study
from pipeline.errors import InputError
from pipeline.sources.source import Source
from pipeline.storage.store import Output
from tests.flows.by_hand import at_once, study_file, tiny
from tests.flows.own_rows import entry, write_rows


def curated(folder: Path, rows: list[dict[str, Any]], **fields: Any) -> tuple[Source, list[Output]]:
    """Curate one source; its first stages, which are made whatever becomes of the others."""
    write_rows(folder, "s", rows)
    data = {"sources": [entry("s", **fields)], "mirror": str(folder), "tokenizer": {"vocabulary_size": 300}}
    plan = Plan(tiny(folder / "run", data=data))
    with suppress(InputError):
        prepare_data(plan, at_once)
    (one,) = plan.data.sources
    return one.source, [one.documents, one.traces, one.clean]


def test_nothing_kept_names_the_source_and_the_main_reason(tmp_path: Path) -> None:
    rows = [{"q": f"What is {i} and {i}?", "r": "It is right."} for i in range(9)] + [{"q": "What is this?", "r": ""}]
    source, outputs = curated(tmp_path, rows, trace="closing")
    with pytest.raises(
        InputError, match=r"source 's': none of its 10 documents .*'traces' dropped 9 as 'trace never closed'"
    ):
        check_kept(source, outputs)


def test_more_than_half_lost_for_one_reason_is_a_line(tmp_path: Path) -> None:
    rows = [{"q": f"What is {i} and {i}?", "r": "" if i % 3 else "<think>a</think>b"} for i in range(9)]
    source, outputs = curated(tmp_path, rows, trace="paired")
    check_kept(source, outputs)
    assert warnings(outputs) == ["documents dropped 6 of the 9 documents of source 's' as 'empty response'"]
    assert unmarked_warnings(outputs[1]) == []


@pytest.mark.parametrize(("trace", "count"), [("paired", {"s": 6}), ("unmarked", {"s": 6}), ("none", {})])
def test_responses_kept_without_marks_are_counted_where_traces_are_declared(
    tmp_path: Path, trace: str, count: dict[str, int]
) -> None:
    rows = [{"q": f"What is {i} and {i}?", "r": "It is right." if i % 3 else "<think>a</think>b"} for i in range(9)]
    outputs = curated(tmp_path, rows, trace=trace)[1]
    told = "source 's': 6 responses have no trace, though `trace` is 'paired'; they stay"
    assert unmarked(outputs[1]) == count
    assert unmarked_warnings(outputs[1]) == [told] * (trace == "paired"), "nobody expects marks of the others"
    assert warnings(outputs) == []


def test_a_weight_changes_no_key_of_what_is_read(tmp_path: Path) -> None:
    rows = [{"q": f"What is {i}?", "r": "It is right."} for i in range(9)]
    assert curated(tmp_path, rows)[1] == curated(tmp_path, rows, weight=2.0)[1]


def test_data_that_are_read_too_often_are_told() -> None:
    assert repetition(4_000, 100) == repetition(0, 0) == []
    (line,) = repetition(41_000, 100)
    assert line.startswith("training reads its data 410.0 times over;")


def test_few_data_are_told_when_they_are_there_and_in_the_plan(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = study_file(tmp_path, training={"tokens": 10_000_000})
    plan = ["plan", str(path), "--root", str(tmp_path / "run")]
    assert main(plan) == 0
    assert re.search(r"WARNING: training reads its data \d+\.\d times over", capsys.readouterr().out)
    prepare_data(Plan(load_study(path, root=tmp_path / "run")), at_once)
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "times over" in line]
    assert line.startswith("WARNING: training reads its data")
    assert main(plan) == 0
    assert line in capsys.readouterr().out
