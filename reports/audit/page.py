"""Make the page on which a person judges removals one by one.

The page saves the verdicts as a CSV file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jinja2
import pandas as pd

from dreamer_study.reports.audit.removals import differences

FACTS = ("stage", "id", "source", "reason", "because", "grade", "score")


def audit_page(removals: pd.DataFrame, *, study_id: str, chosen: str) -> str:
    """Return the page of `read_removals`; `chosen` says in words how they were chosen."""
    with_nulls = removals.astype(object).where(removals.notna(), None)
    cards = [_card(row) for row in with_nulls.to_dict("records")]
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
    )
    return environment.get_template("audit.html.j2").render(
        study=study_id, chosen=chosen, cards=cards, facts=FACTS
    )


def _card(row: dict[str, Any]) -> dict[str, Any]:
    """Put together what the page shows of one document.

    These are its facts, and the texts of both sides in stretches.
    """
    has_cause = row["cause_question"] is not None or row["cause_response"] is not None
    sides = []
    for part in ("question", "response"):
        own = row[part] or ""
        if has_cause:
            own_pieces, cause_pieces = differences(own, row[f"cause_{part}"] or "")
        else:
            own_pieces, cause_pieces = [(own, False)], []
        sides.append((part, own_pieces, cause_pieces))
    facts = {name: row[name] for name in FACTS}
    return {"facts": facts, "has_cause": has_cause, "sides": sides}
