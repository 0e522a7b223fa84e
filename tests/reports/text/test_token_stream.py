"""Which tokens the models have read, and how often, in words."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from dreamer_study.reports.data import StudyData
from dreamer_study.reports.text.token_stream import epochs, repetition, streams


def test_runs_of_one_seed_have_read_the_same_tokens() -> None:
    seen = [
        {"run_id": f"{model}-{seed}", "seed": seed} for model in ("LA", "DR") for seed in (0, 1)
    ]
    frame = pd.DataFrame(seen).assign(tokens=1000, stream_hash="ab")
    said = streams(StudyData({}, {"checkpoints": frame, "mismatches": frame[:0]}))
    assert said.endswith("in the same order, another for each seed (checked at 2 checkpoints).")
    assert not streams(StudyData({}, {"checkpoints": frame, "mismatches": frame}))


def mixed(sources: object, epoch: float | None) -> StudyData:
    """A study of these sources whose run of 600 tokens ended in that epoch; curation kept 900
    tokens."""
    frames = {
        "runs": pd.DataFrame({"tokens": [600]}),
        "checkpoints": pd.DataFrame({"tokens": [300, 600], "epoch": [epoch and epoch / 2, epoch]}),
        "funnel": pd.DataFrame({"tokens_kept": [900.0]}),
    }
    return StudyData({"config": json.dumps({"study": {"data": {"sources": sources}}})}, frames)


@pytest.mark.parametrize("sources", [["mine"], [{"name": "mine", "weight": 0.5}], None, "mine"])
def test_documents_of_weights_up_to_1_are_seen_once_in_an_epoch(sources: object) -> None:
    said = [epochs(mixed(sources, epoch)) for epoch in (0.5, None)]
    assert all(
        "No document was seen twice" in text and "600" in text and "900" in text for text in said
    )
    assert ["50%" in said[0], "67%" in said[1]] == [True, True]


def test_repeated_sources_are_named_and_no_tokens_given_for_packed_ones() -> None:
    weights = [{"name": "mine", "weight": 3}, {"name": "gsm8k", "weight": 2.25}, "mathqa"]
    said = [epochs(mixed(weights, epoch)) for epoch in (0.5, None, 1.5)]
    assert all(
        "mine 3 times" in text and "gsm8k 2.25 times" in text and "900" not in text for text in said
    )
    assert ["No document" in text or "600 tokens on" in text for text in said] == [
        False,
        False,
        True,
    ]


@pytest.mark.parametrize(
    ("epoch", "said"), [(41.2, "Few data: the longest run read them 41.2 times over."), (40, "")]
)
def test_data_read_too_often_make_an_answer_weak(epoch: float, said: str) -> None:
    assert repetition(mixed(["mine"], epoch)) == said
