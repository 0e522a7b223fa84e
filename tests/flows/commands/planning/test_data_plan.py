"""`dreamer plan` about data: known sizes add up, unknown ones are said to be, and what is at hand is measured."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.commands.cli import main
from flows.commands.planning.data_plan import data_bytes, data_tables
from flows.study.loading import load_study
from pipeline.sources.sizes import SIZES
from pipeline.sources.table import SOURCES


def test_every_source_of_the_table_has_a_size_or_is_said_to_be_unknown() -> None:
    assert set(SIZES) == set(SOURCES)


def test_the_paper_study_prints_totals_and_what_is_unknown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "paper-16"]) == 0
    out = capsys.readouterr().out
    assert "at least 135,914,853 (2 of 15 sources unknown) documents" in out
    assert "core-hours" in out
    (line,) = [line for line in out.splitlines() if line.startswith("nemotron-sft-math")]
    assert line.split()[1:] == ["unknown"] * 4
    (line,) = [line for line in out.splitlines() if line.startswith("DR+DA-16")]
    assert "+0.24 %" in line


def test_files_at_hand_are_measured(tmp_path: Path) -> None:
    folder = tmp_path / "owner" / "set" / "data"
    folder.mkdir(parents=True)
    pq.write_table(pa.table({"q": ["question"] * 100, "r": ["response"] * 100}), folder / "train-00000.parquet")
    source = {"name": "set", "repository": "owner/set", "question": "q", "response": "r"}
    content = {
        "name": "s",
        "data": {"sources": [source], "mirror": str(tmp_path)},
        "training": {"tokens": 1000},
        "evaluation": {"benchmarks": ["builtin"]},
    }
    sources, stages, lines = data_tables(load_study(content))
    assert sources.to_dict("records")[0]["documents"] == "100"
    assert sources.to_dict("records")[0]["to download"] == "at hand"
    assert lines["data"].startswith("100 documents, 0 B to download")
    assert list(stages["stage"]) == ["documents", "traces", "clean", "deduplicate", "decontaminate", "tokens"]


def test_a_mirror_that_is_not_there_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "demo", "--mirror", str(tmp_path / "nowhere")]) == 2
    assert capsys.readouterr().err == f"dreamer: data.mirror: there is no folder {tmp_path / 'nowhere'}\n"


def test_bytes_of_data_grow_with_the_documents() -> None:
    content = {"name": "s", "training": {"tokens": 1000}, "evaluation": {"benchmarks": ["builtin"]}}
    few, more = (
        data_bytes(load_study({**content, "data": {"sources": ["builtin"], "world": {"documents": documents}}}))
        for documents in (1000, 2000)
    )
    assert few > 1000 * 100
    assert more == pytest.approx(2 * few)


def test_signatures_take_room_beside_the_documents() -> None:
    """25 band hashes and a place, 8 bytes each, for every document that is signed."""
    content = {"name": "s", "training": {"tokens": 1000}, "evaluation": {"benchmarks": ["builtin"]}}
    data = {"sources": ["builtin"], "world": {"documents": 1000}}
    keys, some, every = (
        data_bytes(load_study({**content, "data": {**data, "deduplicate": settings}}))
        for settings in ({"near": False}, {}, {"guards": []})
    )
    assert every - keys == pytest.approx(1000 * 26 * 8)
    assert some - keys == pytest.approx(0.24 * 1000 * 26 * 8)
