"""Data of a study: prepared once, in order, from mirrors and on clusters."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import dreamer_study.flows.running.curation
from dreamer_study.flows.plan.study_plan import Plan
from dreamer_study.flows.running.curation import prepare_data
from dreamer_study.flows.running.curation_warnings import warnings
from dreamer_study.flows.running.steps import Steps
from dreamer_study.flows.study.loading import load_study
from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.storage.parallel import workers
from dreamer_study.pipeline.storage.store import Output
from tests.flows.by_hand import (
    BENCHMARK,
    Planned,
    entry,
    prepared_of,
    study_file,
    tiny,
    write_own_rows,
)
from tests.pipeline.decontaminate.items import WORDS
from tests.pipeline.documents import read


def score_curation(
    folder: Path, kept: Iterable[int], truth_file: str = "truth.jsonl"
) -> dict[str, dict[str, int]]:
    """Score the rows that a pipeline kept against the world's truth: for each kind, rows and right
    ones.

    Clean rows and variants in other numbers must be kept; leaks, broken rows and unclosed traces
    dropped; of a duplicate and its original at most one kept. A clean row counts as kept if its
    duplicate is.
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


def stage(plan: Plan, name: str) -> Output:
    return next(output for output in plan.data.outputs if output.stage == name)


def test_every_leak_and_exact_duplicate_is_found_and_clean_documents_stay(
    prepared: Planned,
) -> None:
    plan = prepared()
    kept = [row["row"] for row in read(stage(plan, "decontaminate").path)]
    scores = score_curation(stage(plan, "world").path, kept)
    for kind in ("leak", "exact", "broken", "unclosed"):
        assert scores[kind]["rows"] > 0
        assert scores[kind]["right"] == scores[kind]["rows"], (kind, scores[kind])
    for kind in ("clean", "numbers"):
        assert scores[kind]["right"] >= 0.99 * scores[kind]["rows"], (kind, scores[kind])
    assert scores["near"]["right"] >= 0.95 * scores["near"]["rows"], scores["near"]


@pytest.mark.slow
def test_of_sheets_only_what_is_planted_goes(tmp_path: Path) -> None:
    world = {
        "documents": 1500,
        "items": 40,
        "families": ["recall", "expressions", "chain", "tracking"],
    }
    plan = Plan(tiny(tmp_path / "run", data={"world": world}))
    prepare_data(plan, Steps())
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
    path = study_file(
        tmp_path,
        data={"sources": sources},
        evaluation={"benchmarks": [BENCHMARK, "mathqa", "gsm8k"]},
    )
    study = load_study(path, mirror=tmp_path / "mirror", root=tmp_path / "run")
    with pytest.raises(InputError) as error:
        prepare_data(Plan(study), Steps())
    said = str(error.value)
    assert said.startswith("openai/gsm8k: ")
    assert f"`dreamer download {path} --mirror <folder>`" in said
    assert said.endswith("; also not here: mine, mathqa")


@pytest.mark.slow
def test_the_mirror_of_the_last_run_is_known_to_every_command(tmp_path: Path) -> None:
    write_own_rows(tmp_path / "mirror", "items", [{"q": "What is 2 + 3?", "a": "5"}])
    path = study_file(tmp_path, evaluation={"benchmarks": ["builtin", BENCHMARK]})
    prepare_data(Plan(load_study(path, mirror=tmp_path / "mirror", root=tmp_path / "run")), Steps())
    later = load_study(path, root=tmp_path / "run")
    assert later.mirror == tmp_path / "mirror"
    assert Plan(later).absent == []
    assert load_study(path, mirror=tmp_path, root=tmp_path / "run").mirror == tmp_path
    (tmp_path / "mirror").rename(tmp_path / "moved")
    assert load_study(path, root=tmp_path / "run").mirror is None


@pytest.mark.slow
def test_a_study_of_late_benchmarks_alone_has_no_items_to_look_for(tmp_path: Path) -> None:
    mirror = tmp_path / "mirror"
    write_own_rows(
        mirror, "rows", ({"q": f"What is {n} + 1?", "r": f"It is {n + 1}."} for n in range(3000))
    )
    write_own_rows(mirror, "items", [{"q": "What is 2 + 3?", "a": "5"}])
    data = {
        "sources": [entry("rows")],
        "mirror": str(mirror),
        "tokenizer": {"vocabulary_size": 300},
    }
    plan = Plan(
        tiny(tmp_path / "run", data=data, evaluation={"benchmarks": [{**BENCHMARK, "late": True}]})
    )
    prepare_data(plan, Steps())
    assert plan.data.items.results == {"items": 0}


@pytest.mark.slow
def test_a_new_source_is_signed_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw, mirror = random.Random(0), tmp_path / "mirror"
    texts = [" ".join(draw.choices(WORDS, k=30)) + f" {n % 50}?" for n in range(200)]
    copies = [text.replace(" ", " other ", 1) for text in texts[::2]]
    for name, questions in (
        ("first", texts),
        ("second", copies),
        ("items", ["What is 3 and 4 and 5?"] * 20),
    ):
        write_own_rows(mirror, name, ({"q": question, "r": "It is so."} for question in questions))
    signed = []
    sign = dreamer_study.flows.running.curation.sign_source
    monkeypatch.setattr(
        dreamer_study.flows.running.curation,
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


NAMES = ("first", "second", "third")


def texts(outputs: list[Any]) -> list[Any]:
    return [
        row
        for output in outputs
        for kind in ("documents", "dropped")
        for row in read(output.path, kind)
    ]


@pytest.mark.slow  # starting Dask's workers takes seconds
def test_a_study_prepared_on_a_running_cluster_is_the_same_study(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    distributed, mirror, sources = (
        pytest.importorskip("distributed"),
        tmp_path / "mirror",
        [*map(entry, NAMES)],
    )
    for name in (*NAMES, "items"):
        answers = (
            f"<think>{'hm ' * 20}</think>It is {2 * i}." if i % 9 else "" for i in range(400)
        )
        rows = (
            {"q": f"{name}: what is {i * 37} and {i}?", "r": answer}
            for i, answer in enumerate(answers)
        )
        write_own_rows(mirror, name, rows)
    monkeypatch.setattr(dreamer_study.flows.running.curation, "WORTH_PROCESSES", 0)
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None
    ) as cluster:
        there = {"cluster": cluster.scheduler_address}
        spread = prepared_of(mirror, tmp_path / "there", *sources, **there)
        with pytest.raises(InputError, match='column "solution" not found'):
            prepared_of(
                mirror,
                tmp_path / "wrong",
                entry("first", response="solution"),
                *sources[1:],
                **there,
            )
    monkeypatch.undo()
    alone = prepared_of(mirror, tmp_path / "here", *sources)
    assert spread.study.study_id == alone.study.study_id
    assert [output.name for output in spread.data.outputs] == [
        output.name for output in alone.data.outputs
    ]
    assert texts(spread.data.counted) == texts(alone.data.counted)
    assert [dict(one.results) for one in spread.data.counted] == [
        dict(one.results) for one in alone.data.counted
    ]
    for output, name in (
        ("curated", "matches.parquet"),
        ("packed", "tokens-00000.bin"),
        ("packed", "index-00000.npy"),
    ):
        first, second = (getattr(plan.data, output).path / name for plan in (spread, alone))
        assert first.read_bytes() == second.read_bytes(), name


@pytest.mark.slow
def test_a_cluster_that_is_not_there_is_one_line() -> None:
    pytest.importorskip("distributed")
    with (
        pytest.raises(InputError, match="no Dask scheduler answers"),
        workers(1, "tcp://127.0.0.1:1"),
    ):
        pass


def test_a_document_for_which_much_of_a_source_is_dropped_is_told() -> None:
    cluster = {"dropped": 199, "of": 1500, "because": "s/0", "example": "s/7"}
    results = {"counts": [], "large_clusters": [cluster]}
    (line,) = warnings([SimpleNamespace(stage="deduplicate", results=results)])
    assert "199 of the 1,500 documents" in line
    assert "'s/0'" in line
    assert "--id s/7" in line
    assert "\n" not in line
