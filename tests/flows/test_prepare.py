"""Data of a study: prepared once, in order, from mirrors, bad rows and on clusters."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import flows.prepare
from flows.data import DataPlan
from flows.plan import Plan
from flows.prepare import prepare_data
from flows.study.loading import load_study
from pipeline.errors import InputError
from pipeline.storage.documents import KEPT
from pipeline.storage.parallel import workers
from pipeline.storage.store import Output
from tests.flows.by_hand import BENCHMARK, at_once, entry, prepared_of, study_file, tiny, write_own_rows
from tests.flows.small_study import TINY
from tests.pipeline.decontaminate.items import WORDS
from tests.pipeline.documents import read


def score_curation(folder: Path, kept: Iterable[int], truth_file: str = "truth.jsonl") -> dict[str, dict[str, int]]:
    """Score the rows that a pipeline kept against the world's truth: for each kind, rows and right ones.

    Clean rows and variants in other numbers must be kept; leaks, broken rows and unclosed traces dropped; of a
    duplicate and its original at most one kept. A clean row counts as kept if its duplicate is.
    """
    with (Path(folder) / truth_file).open(encoding="utf-8") as file:
        truth = [json.loads(line) for line in file]
    kept = set(kept)
    stands_in = {entry["of"]: entry["row"] for entry in truth if entry["kind"] in ("exact", "near")}
    scores: dict[str, dict[str, int]] = {}
    for planted in truth:
        row, kind = planted["row"], planted["kind"]
        if kind in ("clean", "numbers"):
            right = row in kept or stands_in.get(row) in kept
        elif kind in ("exact", "near"):
            right = row not in kept or planted["of"] not in kept
        else:
            right = row not in kept
        score = scores.setdefault(kind, {"rows": 0, "right": 0})
        score["rows"] += 1
        score["right"] += right
    return dict(sorted(scores.items()))


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    folder = tmp_path_factory.mktemp("study")
    study_file = folder / "study.yaml"
    world = "documents: 20000, items: 400"
    study_file.write_text(TINY.read_text().replace("documents: 1500, items: 40", world))
    plan = Plan(load_study(study_file, root=folder))
    prepare_data(plan, at_once)
    return plan


def stage(prepared: Plan, name: str) -> Output:
    return next(output for output in prepared.data.outputs if output.stage == name)


@pytest.mark.slow
def test_every_leak_and_exact_duplicate_is_found_and_clean_documents_stay(prepared: Plan) -> None:
    kept = [row["row"] for row in read(stage(prepared, "decontaminate").path)]
    scores = score_curation(stage(prepared, "world").path, kept)
    for kind in ("leak", "exact", "broken", "unclosed"):
        assert scores[kind]["rows"] > 0
        assert scores[kind]["right"] == scores[kind]["rows"], (kind, scores[kind])
    for kind in ("clean", "numbers"):
        assert scores[kind]["right"] >= 0.99 * scores[kind]["rows"], (kind, scores[kind])
    assert scores["near"]["right"] >= 0.95 * scores["near"]["rows"], scores["near"]


def test_of_sheets_only_what_is_planted_goes(tmp_path: Path) -> None:
    world = {"documents": 1500, "items": 40, "families": ["recall", "expressions", "chain", "tracking"]}
    plan = Plan(tiny(tmp_path / "run", data={"world": world}))
    prepare_data(plan, at_once)
    kept = [row["row"] for row in read(stage(plan, "decontaminate").path)]
    scores = score_curation(stage(plan, "world").path, kept, "sheets.truth.jsonl")
    assert {kind: score["right"] for kind, score in scores.items()} == {
        kind: score["rows"] for kind, score in scores.items()
    }
    assert scores.keys() == {"clean", "exact", "leak", "broken"}


def test_all_data_sets_that_are_not_here_are_named_with_the_study(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A study of two sources and three benchmarks, one of which is in the mirror."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    write_own_rows(tmp_path / "mirror", "items", [{"q": "What is 2 + 3?", "a": "5"}])
    sources = ["gsm8k", {"name": "mine", "repository": "me/mine", "text": "t"}]
    path = study_file(tmp_path, data={"sources": sources}, evaluation={"benchmarks": [BENCHMARK, "mathqa", "gsm8k"]})
    study = load_study(path, mirror=tmp_path / "mirror", root=tmp_path / "run")
    with pytest.raises(InputError) as error:
        prepare_data(Plan(study), at_once)
    said = str(error.value)
    assert said.startswith("openai/gsm8k: ")
    assert f"`dreamer download {path} --mirror <folder>`" in said
    assert said.endswith("; also not here: mine, mathqa")


def test_the_mirror_of_the_last_run_is_known_to_every_command(tmp_path: Path) -> None:
    write_own_rows(tmp_path / "mirror", "items", [{"q": "What is 2 + 3?", "a": "5"}])
    path = study_file(tmp_path, evaluation={"benchmarks": ["builtin", BENCHMARK]})
    prepare_data(Plan(load_study(path, mirror=tmp_path / "mirror", root=tmp_path / "run")), at_once)
    later = load_study(path, root=tmp_path / "run")
    assert later.mirror == tmp_path / "mirror"
    assert Plan(later).absent == []
    assert load_study(path, mirror=tmp_path, root=tmp_path / "run").mirror == tmp_path
    (tmp_path / "mirror").rename(tmp_path / "moved")
    assert load_study(path, root=tmp_path / "run").mirror is None


def test_a_study_of_late_benchmarks_alone_has_no_items_to_look_for(tmp_path: Path) -> None:
    mirror = tmp_path / "mirror"
    write_own_rows(mirror, "rows", ({"q": f"What is {n} + 1?", "r": f"It is {n + 1}."} for n in range(3000)))
    write_own_rows(mirror, "items", [{"q": "What is 2 + 3?", "a": "5"}])
    data = {"sources": [entry("rows")], "mirror": str(mirror), "tokenizer": {"vocabulary_size": 300}}
    plan = Plan(tiny(tmp_path / "run", data=data, evaluation={"benchmarks": [{**BENCHMARK, "late": True}]}))
    prepare_data(plan, at_once)
    assert plan.data.items.results == {"items": 0}


@pytest.mark.slow
def test_a_new_source_is_signed_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw, mirror = random.Random(0), tmp_path / "mirror"
    texts = [" ".join(draw.choices(WORDS, k=30)) + f" {n % 50}?" for n in range(200)]
    copies = [text.replace(" ", " other ", 1) for text in texts[::2]]
    for name, questions in (("first", texts), ("second", copies), ("items", ["What is 3 and 4 and 5?"] * 20)):
        write_own_rows(mirror, name, ({"q": question, "r": "It is so."} for question in questions))
    signed = []
    sign = flows.prepare.sign_source
    monkeypatch.setattr(
        flows.prepare,
        "sign_source",
        lambda source, *rest, **named: (signed.append(1), sign(source, *rest, **named))[1],
    )

    def kept(root: str, *names: str) -> list[str]:
        unique = prepared_of(mirror, tmp_path / root, *map(entry, names)).data.unique
        return [row["id"] for row in read(unique.path)]

    assert len(kept("grown", "first")) == 200
    assert len(signed) == 1
    grown = kept("grown", "first", "second")
    assert len(signed) == 2
    assert grown == kept("fresh", "first", "second")
    assert len(grown) < 210


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
    write_own_rows(tmp_path, "items", [{"q": "Who wrote the paper on dreams?"}])
    return tmp_path


@pytest.mark.slow
def test_bad_rows_are_counted_and_nothing_is_lost(mirror: Path) -> None:
    data = prepare(mirror, "nested", "mixed")
    for name, rows in (("nested", 69), ("mixed", 48)):
        before = rows
        for stage in ("documents", "traces", "clean"):
            output = next(o for o in data.counted if o.stage == stage and o.results["counts"][0]["source"] == name)
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
    ids = [row["id"] for output in data.counted for row in read(output.path, "dropped")]
    ids += [row["id"] for row in read(data.curated.path)]
    assert len(ids) == len(set(ids)) == 69 + 48


@pytest.mark.slow  # byte-pair encoding of long texts
def test_long_documents_can_be_kept(mirror: Path) -> None:
    data = prepare(mirror, "nested", clean={"longest_response": None, "looping": None}, memory="1GB")
    assert data.packed.results["counts"][0]["characters"] > LONG


NAMES = ("first", "second", "third")


def texts(outputs: list[Any]) -> list[Any]:
    return [row for output in outputs for kind in ("documents", "dropped") for row in read(output.path, kind)]


@pytest.mark.slow  # starting Dask's workers takes seconds
def test_a_study_prepared_on_a_running_cluster_is_the_same_study(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    distributed, mirror, sources = pytest.importorskip("distributed"), tmp_path / "mirror", [*map(entry, NAMES)]
    for name in (*NAMES, "items"):
        answers = (f"<think>{'hm ' * 20}</think>It is {2 * i}." if i % 9 else "" for i in range(400))
        rows = ({"q": f"{name}: what is {i * 37} and {i}?", "r": answer} for i, answer in enumerate(answers))
        write_own_rows(mirror, name, rows)
    monkeypatch.setattr(flows.prepare, "WORTH_PROCESSES", 0)
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        there = {"cluster": cluster.scheduler_address}
        spread = prepared_of(mirror, tmp_path / "there", *sources, **there)
        with pytest.raises(InputError, match='column "solution" not found'):
            prepared_of(mirror, tmp_path / "wrong", entry("first", response="solution"), *sources[1:], **there)
    monkeypatch.undo()
    alone = prepared_of(mirror, tmp_path / "here", *sources)
    assert spread.study.study_id == alone.study.study_id
    assert [output.name for output in spread.data.outputs] == [output.name for output in alone.data.outputs]
    assert texts(spread.data.counted) == texts(alone.data.counted)
    assert [dict(one.results) for one in spread.data.counted] == [dict(one.results) for one in alone.data.counted]
    for output, name in (("curated", "matches.parquet"), ("packed", "tokens-00000.bin"), ("packed", "index-00000.npy")):
        first, second = (getattr(plan.data, output).path / name for plan in (spread, alone))
        assert first.read_bytes() == second.read_bytes(), name


@pytest.mark.slow
def test_a_cluster_that_is_not_there_is_one_line() -> None:
    pytest.importorskip("distributed")
    with pytest.raises(InputError, match="no Dask scheduler answers"), workers(1, "tcp://127.0.0.1:1"):
        pass
