"""What the report says of the tokens that runs read: how often each document, and of which runs."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from reports.data import StudyData, read_study
from reports.page.sections import data_blocks
from reports.text.token_stream import epochs, repetition, streams
from tests.reports.small_results import STUDY, curation, entered, model_row, study


def read(*runs: tuple[str, int, str]) -> StudyData:
    """A study of runs (variant, seed, status) of depth 4; runs of one seed have read the same tokens."""
    checkpoints = [
        {"run_id": f"{variant}-{seed}", "variant": variant, "depth": 4, "seed": seed, "status": status}
        | {"tokens": 1000, "stream_hash": f"hash {seed}"}
        for variant, seed, status in runs
    ]
    return StudyData({}, {"checkpoints": pd.DataFrame(checkpoints), "mismatches": pd.DataFrame()})


def test_a_failed_run_is_none_that_went_on() -> None:
    failed = read(("LA", 0, "complete"), ("LA", 1, "failed"), ("DR", 0, "failed"), ("DR", 1, "complete"))
    assert "The models that went on are of different seeds (DR 1 and LA 0)" in streams(failed)
    whole = read(*((variant, seed, "complete") for variant in ("LA", "DR") for seed in (0, 1)))
    assert streams(whole).startswith("All models read the same tokens in the same order, another order for each seed")


def mixed(sources: object, epoch: float | None) -> StudyData:
    """A study of these sources whose run of 600 tokens ended in that epoch; curation kept 900 tokens."""
    frames = {
        "runs": pd.DataFrame({"tokens": [600]}),
        "checkpoints": pd.DataFrame({"tokens": [300, 600], "epoch": [epoch and epoch / 2, epoch]}),
        "funnel": pd.DataFrame({"tokens_kept": [900.0]}),
    }
    return StudyData({"config": json.dumps({"study": {"data": {"sources": sources}}})}, frames)


@pytest.mark.parametrize("sources", [["mine"], [{"name": "mine", "weight": 0.5}], None, "mine"])
def test_documents_of_weights_up_to_1_are_seen_once_in_an_epoch(sources: object) -> None:
    assert epochs(mixed(sources, 0.5)) == (
        "No document was seen twice: the longest run read 50% of the packed data (600 tokens of training, 900 in the "
        "data)."
    )
    assert epochs(mixed(sources, None)).startswith("No document was seen twice: the longest run read 67%")


def test_repeated_sources_are_named_and_no_tokens_given_for_packed_ones() -> None:
    weights = [{"name": "mine", "weight": 3}, {"name": "gsm8k", "weight": 2.25}, "mathqa"]
    packed = (
        "In one epoch documents are packed more than once: those of mine 3 times and those of gsm8k 2.25 times on "
        "average."
    )
    assert epochs(mixed(weights, 0.5)) == f"The longest run read 50% of the packed data. {packed}"
    assert epochs(mixed(weights, None)) == packed
    twice = epochs(mixed(weights, 1.5))
    assert "From the checkpoint at 600 tokens on, models had seen all documents before." in twice
    assert twice.endswith(packed)
    assert "900" not in twice


def test_tokens_of_the_data_count_each_document_once(tmp_path: Path) -> None:
    config = {"study": {"data": {"sources": [{"name": "world", "weight": 3.0}]}}}
    tables = {"studies": [study(config)], "models": [model_row("LA", "LA", 4)], "curation": curation()}
    first = data_blocks(read_study(entered(tmp_path / "results.duckdb", tables), STUDY))[0].content
    assert first.endswith(
        "700 went into training as 9M tokens, each document counted once. In one epoch documents are packed more than "
        "once: those of world 3 times."
    )


@pytest.mark.parametrize(("epoch", "said"), [(41.2, "Few data: the longest run read them 41.2 times over."), (40, "")])
def test_data_read_too_often_make_an_answer_weak(epoch: float, said: str) -> None:
    assert repetition(mixed(["mine"], epoch)) == said
