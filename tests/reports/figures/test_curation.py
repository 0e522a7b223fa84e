"""The funnel of the documents, drawn and tabulated."""

from __future__ import annotations

import pandas as pd

from reports.figures.curation import kept_and_dropped
from reports.tables.curation import funnel

FUNNEL = pd.DataFrame(
    {"study_id": "a", "stage": ["clean", "tokens"], "documents": [10, 6], "kept": [6, 6], "share_kept": [0.6, 1.0]}
    | {"characters_kept": [600, 600], "tokens_kept": [None, 150]}
).astype({"tokens_kept": float})
CURATION = pd.DataFrame(
    {"study_id": "a", "source": ["a", "b", "a"], "stage": "clean", "reason": ["too_short", "too_short", "kept"]}
    | {"documents": [1, 3, 6], "characters": [10, 30, 600], "tokens": [None, None, None]}
).astype({"tokens": float})


def test_the_funnel_is_told_in_documents_and_in_text() -> None:
    drawn = kept_and_dropped(FUNNEL, CURATION)
    assert drawn.finding == "Of 10 documents 6 are left (60.0%)."
    assert [one.title for one in drawn.panels] == ["Documents by stage", "Characters by stage"]
    assert "Clean kept 600 and dropped 40" in drawn.panels[1].description
    counted = FUNNEL.assign(tokens_kept=[200.0, 150.0])
    assert kept_and_dropped(counted, CURATION).panels[1].title == "Tokens by stage"
    rows = [[cell.text for cell in row.cells] for row in funnel(FUNNEL, CURATION).rows]
    assert rows == [
        ["Clean", "6", "60.0%", "600", "–"],
        ["− too short", "4", "40.0%", "40", "–"],
        ["Tokenise and pack", "6", "100.0%", "600", "150"],
    ]
