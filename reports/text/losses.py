"""Say loudly what curation lost: most of a source for one reason; and sources whose reasoning no mark tells apart."""

from __future__ import annotations

from reports.data import StudyData
from reports.text.names import stage_name
from reports.text.numbers import listed, number, percent


def data_doubts(data: StudyData) -> list[str]:
    """Return a text for each source of which a stage dropped more than half for one reason, and on unmarked traces."""
    rows = data.curation.assign(came=data.curation.groupby(["source", "stage"])["documents"].transform("sum"))
    most = rows[(rows["reason"] != "kept") & (2 * rows["documents"] > rows["came"])]
    texts = [
        f"{stage_name(row.stage)} dropped {percent(row.documents / row.came)} of what came from {row.source} for one "
        f"reason: {row.reason.replace('_', ' ')} ({number(row.documents)} of {number(row.came)} documents)."
        for row in most.itertuples()
    ]
    unmarked = [f"{number(row.unmarked)} of {row.source}" for row in data.unmarked.itertuples()]
    if unmarked:
        texts.append(
            "Responses without marks of a trace stay whole, so the models may learn the reasoning in them too: "
            f"{listed(unmarked)}."
        )
    return texts
