"""What public files may hold that they should not, through all data stages: refused in one line, or counted."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.plan import DataPlan
from pipeline.storage.documents import KEPT, read_documents
from tests.flows.own_rows import entry, prepared_of, write_rows

LONG = 10_000_000


def prepare(tmp_path: Path, *names: str, **data: Any) -> DataPlan:
    sources = [entry(name, question="list_extract(turns, 1).text") for name in names]
    return prepared_of(tmp_path, tmp_path / "run", *sources, **data).data


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    folders = {name: tmp_path / "owner" / name / "default" for name in ("nested", "mixed")}
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
    write_rows(tmp_path, "items", [{"q": "Who wrote the paper on dreams?"}])
    return tmp_path


@pytest.mark.slow
def test_bad_rows_are_counted_and_nothing_is_lost(mirror: Path) -> None:
    data = prepare(mirror, "nested", "mixed")
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
    data = prepare(mirror, "nested", clean={"longest_response": None, "looping": None}, memory="1GB")
    assert data.packed.results["counts"][0]["characters"] > LONG
