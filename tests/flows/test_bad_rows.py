"""What public files may hold that they should not, through all data stages: refused in one line, or counted."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.plan import DataPlan, Plan
from flows.prepare import prepare_data
from flows.study.loading import load_study
from pipeline.errors import InputError
from pipeline.storage.documents import KEPT, read_documents
from tests.flows.by_hand import at_once

LONG = 10_000_000


def study(tmp_path: Path, *sources: str, **data: Any) -> Any:
    entries = [
        {"name": s, "repository": f"owner/{s}", "question": "list_extract(turns, 1).text", "response": "r"}
        for s in sources
    ]
    return load_study(
        {
            "name": "bad",
            "root": str(tmp_path / "run"),
            "data": {"sources": entries, "mirror": str(tmp_path), "tokenizer": {"vocabulary_size": 300}, **data},
            "training": {"tokens": 10_000, "sequence_length": 256},
            "evaluation": {"benchmarks": [{"name": "b", "repository": "owner/items", "task": "b", "metric": "acc"}]},
        }
    )


def prepare(chosen: Any) -> DataPlan:
    plan = Plan(chosen)
    prepare_data(plan, at_once)
    return plan.data


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    folders = {name: tmp_path / "owner" / name / "default" for name in ("nested", "mixed", "items")}
    for folder in folders.values():
        folder.mkdir(parents=True)
    turns = pa.list_(pa.struct([("text", pa.string())]))
    rows: list[dict[str, Any]] = [
        {"turns": [{"text": f"What is {i} times 37?"}], "r": f"{i * 37} it is"} for i in range(60)
    ]
    rows += [{"turns": None, "r": "a"}, {"turns": [], "r": "b"}, {"turns": [None], "r": "c"}]
    rows += [{"turns": [{"text": None}], "r": "d"}, {"turns": [{"text": "Why so?"}], "r": None}]
    rows += [{"turns": [{"text": f"How long is {i}?"}], "r": "many words " * (LONG // 11)} for i in range(2)]
    table = pa.Table.from_pylist(rows, schema=pa.schema([("turns", turns), ("r", pa.string())]))
    broken = pa.array([b"caf\xe9 is \xff broken"] * 2).cast(pa.binary()).view(pa.string())
    more = pa.table({"turns": pa.array([[{"text": "Is it?"}]] * 2, turns), "r": broken})
    pq.write_table(pa.concat_tables([table, more]), folders["nested"] / "train.parquet")
    lines = [json.dumps({"turns": [{"text": f"And {i} plus 91?"}], "r": i + 91}) for i in range(40)]
    lines += [json.dumps({"turns": [{"text": "A list?"}], "r": ["x", None, 3]}), "{broken", "[1, 2]", "17", ""]
    lines += [json.dumps({"turns": "no list", "r": {"text": "no text"}}), lines[0], lines[0]]
    (folders["mixed"] / "train.jsonl").write_bytes(
        "\n".join(lines).encode() + b'\n{"turns": [{"text": "\xff?"}], "r": "y"}\n'
    )
    (folders["items"] / "test.jsonl").write_text(json.dumps({"question": "Who wrote the paper on dreams?"}) + "\n")
    return tmp_path


@pytest.mark.slow
def test_bad_rows_are_counted_and_nothing_is_lost(mirror: Path) -> None:
    chosen = study(mirror, "nested", "mixed")
    data = prepare(chosen)
    for name, rows in (("nested", 69), ("mixed", 48)):
        read, stripped, cleaned = (
            next(o for o in data.counted if o.stage == stage and o.results["counts"][0]["source"] == name)
            for stage in ("documents", "traces", "clean")
        )
        before = rows
        for output in (read, stripped, cleaned):
            counts = output.results["counts"]
            assert sum(row["documents"] for row in counts) == before, output.stage
            before = sum(row["documents"] for row in counts if row["reason"] == KEPT)
    reasons = {row["reason"]: 0 for output in [*data.counted, data.packed] for row in output.results["counts"]}
    for output in [*data.counted, data.packed]:
        for row in output.results["counts"]:
            reasons[row["reason"]] += row["documents"]
    assert reasons["malformed row"] == 3
    assert reasons["empty question"] == 5
    assert reasons["empty response"] == 1
    assert reasons["broken encoding"] == 2
    assert reasons["question too short"] == 1
    assert reasons["response too long"] == 2
    assert reasons["exact_duplicate"] == 2
    ids = [
        id
        for output in data.counted
        for batch in read_documents(output.path, kind="dropped")
        for id in batch["id"].to_pylist()
    ]
    curated = next(o for o in data.counted if o.stage == "decontaminate")
    ids += [id for batch in read_documents(curated.path) for id in batch["id"].to_pylist()]
    assert len(ids) == len(set(ids)) == 69 + 48


@pytest.mark.slow  # byte-pair encoding of long texts
def test_long_documents_can_be_kept(mirror: Path) -> None:
    chosen = study(mirror, "nested", clean={"longest_response": None, "looping": None}, memory="1GB")
    assert prepare(chosen).packed.results["counts"][0]["characters"] > LONG


def test_a_file_that_is_cut_off_is_one_line_and_leaves_nothing_half_done(mirror: Path) -> None:
    path = mirror / "owner/nested/default/train.parquet"
    path.write_bytes(path.read_bytes()[:-100])
    chosen = study(mirror, "nested")
    with pytest.raises(InputError, match=r"train.parquet: cut off or damaged .*fetch it again"):
        prepare(chosen)
    assert not list(chosen.store_folder.glob("documents/*/manifest.json"))


def test_an_empty_source_is_refused(mirror: Path) -> None:
    (mirror / "owner/mixed/default/train.jsonl").write_text("")
    chosen = study(mirror, "mixed")
    with pytest.raises(InputError, match="source 'mixed' has no rows"):
        prepare(chosen)


def test_two_sources_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"data\.sources: the name 'nested' is given twice"):
        study(tmp_path, "nested", "nested")
