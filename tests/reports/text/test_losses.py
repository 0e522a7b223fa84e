"""What is said of a source that curation nearly emptied, and of reasoning without marks."""

from __future__ import annotations

import json

import pandas as pd

from reports.data import StudyData
from reports.text.limitations import data_doubts


def study(dropped: int, unmarked: int = 0) -> StudyData:
    """A study that names one source, of whose 100 documents the cleaning dropped so many, others without marks."""
    rows = [("kept", 100 - dropped), ("too_short", dropped)]
    frame = pd.DataFrame([{"source": "web", "stage": "clean", "reason": r, "documents": n} for r, n in rows])
    without = pd.DataFrame([{"source": "web", "unmarked": float(unmarked)}])
    config = {"study": {"data": {"sources": ["web"]}}}
    return StudyData({"config": json.dumps(config)}, {"curation": frame, "unmarked": without[without["unmarked"] > 0]})


def test_a_source_that_lost_most_of_its_documents_for_one_reason_is_named() -> None:
    said = ["Clean dropped 51.0% of what came from web for one reason: too short (51 of 100 documents)."]
    assert data_doubts(study(51)) == said
    assert data_doubts(study(50)) == []


def test_a_source_without_marks_of_reasoning_is_named() -> None:
    (said,) = data_doubts(study(0, unmarked=20))
    assert said.startswith("Responses without marks of a trace stay whole")
    assert said.endswith(": 20 of web.")
    assert data_doubts(study(0)) == []
