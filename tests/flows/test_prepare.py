"""The whole curation against the built-in world's ground truth, as a study runs it; and that it is done only once."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from flows.plan import Plan
from flows.prepare import prepare_data
from flows.study.loading import load_study
from model.training.stream import TokenStream
from pipeline.storage.documents import KEPT, read_documents
from pipeline.storage.store import Output
from pipeline.tokens.tokenizer import read_tokenizer
from tests.flows.by_hand import at_once
from tests.flows.small_study import TINY
from tests.pipeline.worlds.curation_score import score_curation

pytestmark = pytest.mark.slow  # each world takes seconds to be prepared


@pytest.fixture(scope="module", params=["sums", "sums, relations, swaps"])
def prepared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Plan:
    folder = tmp_path_factory.mktemp("study")
    study_file = folder / "study.yaml"
    world = f"documents: 20000, items: 400, families: [{request.param}]"
    study_file.write_text(TINY.read_text().replace("documents: 1500, items: 40", world))
    plan = Plan(load_study(study_file, root=folder))
    prepare_data(plan, at_once)
    return plan


def stage(prepared: Plan, name: str) -> Output:
    return next(output for output in prepared.data.outputs if output.stage == name)


def test_every_leak_and_exact_duplicate_is_found_and_clean_documents_stay(prepared: Plan) -> None:
    kept = [
        row
        for batch in read_documents(stage(prepared, "decontaminate").path, columns=["row"])
        for row in batch["row"].to_pylist()
    ]
    scores = score_curation(stage(prepared, "world").path, kept)
    for kind in ("leak", "exact", "broken", "unclosed"):
        assert scores[kind]["rows"] > 0
        assert scores[kind]["right"] == scores[kind]["rows"], (kind, scores[kind])
    for kind in ("clean", "numbers"):
        assert scores[kind]["right"] >= 0.99 * scores[kind]["rows"], (kind, scores[kind])
    assert scores["near"]["right"] >= 0.95 * scores["near"]["rows"], scores["near"]


def test_every_dropped_document_says_why(prepared: Plan) -> None:
    for name, reasons in (("deduplicate", {"exact_duplicate", "near_duplicate"}), ("decontaminate", set())):
        rows = [
            row for batch in read_documents(stage(prepared, name).path, kind="dropped") for row in batch.to_pylist()
        ]
        assert rows
        assert all(row["reason"] and row["because"] for row in rows)
        assert reasons <= {row["reason"] for row in rows}


def test_the_funnel_adds_up(prepared: Plan) -> None:
    before = None
    for output in [*prepared.data.counted, prepared.data.packed]:
        total = sum(count["documents"] for count in output.results["counts"])
        if before is not None:
            assert total == before, output.stage
        before = sum(count["documents"] for count in output.results["counts"] if count["reason"] == KEPT)


def test_the_packed_stream_holds_what_was_kept(prepared: Plan) -> None:
    curated, packed = stage(prepared, "decontaminate"), stage(prepared, "tokens")
    kept = sum(count["documents"] for count in curated.results["counts"] if count["reason"] == KEPT)
    counted = {count["reason"]: count for count in packed.results["counts"]}
    assert packed.results["documents"] == kept - counted["validation"]["documents"] == counted[KEPT]["documents"]
    assert packed.results["tokens"] == counted[KEPT]["tokens"]
    described = json.loads((packed.path / "packed.json").read_text())
    assert described["tokens"] == packed.results["tokens"]
    assert described["vocabulary_size"] == stage(prepared, "tokenizer").results["vocabulary_size"]
    batch = TokenStream(packed.path, seed=0, batch_rows=4).batch(0)
    assert batch.tokens.shape[1] == prepared.study.training.sequence_length


def test_no_validation_document_shares_its_question_with_training(prepared: Plan) -> None:
    packed = stage(prepared, "tokens").path
    task = prepared.tasks[-1]
    assert (task["benchmark"], task["metric"]) == ("validation", "bits_per_byte")
    held_out = [json.loads(line) for line in Path(task["plain"]).read_text().splitlines()]
    assert len(held_out) == stage(prepared, "tokens").results["validation"] > 200
    codec = read_tokenizer(prepared.data.tokenizer.path)
    tokens = np.fromfile(packed / "tokens-00000.bin", "<u2")
    index = np.load(packed / "index-00000.npy")
    trained = {normal(codec.decode(tokens[start:response].tolist())) for start, response, _ in index}
    assert len(trained) > 10_000
    assert not trained & {normal(item["prompt"]) for item in held_out}


def normal(text: str) -> tuple[str, ...]:
    """The words of a text in small letters."""
    return tuple(re.findall(r"\w+", text.lower()))


def test_a_second_time_nothing_is_done(prepared: Plan) -> None:
    steps = []
    prepare_data(Plan(prepared.study), lambda *step: steps.append(step))
    assert steps == []
