"""What limits a study: doubts about its data, settings and machines."""

from __future__ import annotations

import json

import pandas as pd

from dreamer_study.reports.data import StudyData
from dreamer_study.reports.text.limitations import (
    continued_runs,
    data_doubts,
    rate_doubts,
    setting_doubts,
    undecided_rates,
)


def nearly_emptied(dropped: int, unmarked: int = 0) -> StudyData:
    """A study that names one source, of whose 100 documents the cleaning dropped so many, others
    without marks."""
    rows = [("kept", 100 - dropped), ("too_short", dropped)]
    frame = pd.DataFrame(
        [{"source": "web", "stage": "clean", "reason": r, "documents": n} for r, n in rows]
    )
    without = pd.DataFrame([{"source": "web", "unmarked": float(unmarked)}])
    config = {"study": {"data": {"sources": ["web"]}}}
    return StudyData(
        {"config": json.dumps(config)},
        {"curation": frame, "unmarked": without[without["unmarked"] > 0]},
    )


def test_a_source_that_lost_most_of_its_documents_for_one_reason_is_named() -> None:
    said = [
        "Clean dropped 51.0% of what came from web for one reason: too short (51 of 100 documents)."
    ]
    assert data_doubts(nearly_emptied(51)) == said
    assert data_doubts(nearly_emptied(50)) == []


def test_a_weight_decay_at_the_edge_of_those_tried_is_named() -> None:
    rows = [
        {"depth": 4, "variant": name, "weight_decay": tried, "decay": 0.2, "chosen": tried == best}
        for name, best, grid in (
            ("LA", 0.1, (0.01, 0.1, 1.0)),
            ("Muon", 1.0, (0.01, 0.1, 1.0)),
            ("own", 5.0, (5.0,)),
        )
        for tried in grid
    ]
    texts = setting_doubts(StudyData({}, {"tuning_settings": pd.DataFrame(rows)}))
    assert texts == [
        "Weight decays were chosen at the edge of those tried, so that better ones may lie beyond:"
        " Muon (1)."
    ]
    none = pd.DataFrame(rows)[:0]
    assert setting_doubts(StudyData({}, {"tuning_settings": none})) == []


def test_a_learning_rate_at_the_edge_of_those_tried_is_a_doubt() -> None:
    def doubts(**chosen: float) -> list[str]:
        rows = [
            {
                "depth": 4,
                "variant": name,
                "learning_rate": rate,
                "seed": seed,
                "chosen": rate == best,
            }
            for name, best in chosen.items()
            for rate in (1e-3, 2e-3, 4e-3)
            for seed in (8, 9)
        ]
        return rate_doubts(StudyData({}, {"tuning": pd.DataFrame(rows)}))

    assert doubts(LA=2e-3) == []
    (text,) = doubts(LA=2e-3, DR=4e-3, SSM=1e-3)
    assert text.endswith("may lie beyond: DR (0.004) and SSM (0.001).")


def test_a_search_whose_seeds_do_not_agree_is_a_doubt() -> None:
    def doubts(**losses: list[tuple[float, ...]]) -> list[str]:
        """The doubts about a search that has one loss for each seed at each rate."""
        rows = [
            {"depth": 4, "variant": name, "learning_rate": rate, "seed": seed, "loss": loss}
            for name, of_rates in losses.items()
            for rate, of_seeds in enumerate(of_rates)
            for seed, loss in enumerate(of_seeds)
        ]
        return undecided_rates(StudyData({}, {"tuning": pd.DataFrame(rows)}))

    failed = float("nan")
    agreed = [(2.0, 2.9), (1.0, 1.9), (1.5, 2.0)]
    assert doubts(LA=agreed) == []
    assert doubts(LA=[(2.0,), (1.0,)]) == [], "one seed agrees with itself"
    assert doubts(LA=[*agreed, (0.1, failed)]) == [], "the search leaves out a rate that failed"
    (text,) = doubts(LA=agreed, LSTM=[(2.33, 2.34), (2.32, 2.35), (2.33, failed)])
    assert text.endswith("another one: LSTM.")


def test_a_run_that_another_computer_has_continued_is_named() -> None:
    engine = "cpu, from 5,120 tokens cpu with another C engine"
    for devices, said in [(["cpu", None], []), (["cpu", engine], [f"rounding: DR ({engine})."])]:
        runs = pd.DataFrame({"run_id": ["LA", "DR"], "device": devices})
        texts = continued_runs(StudyData({}, {"runs": runs}))
        assert [text.partition("but for ")[2] for text in texts] == said


def test_a_source_without_marks_of_reasoning_is_named() -> None:
    (said,) = data_doubts(nearly_emptied(0, unmarked=20))
    assert said.startswith("Responses without marks of a trace stay whole")
    assert said.endswith(": 20 of web.")
    assert data_doubts(nearly_emptied(0)) == []
