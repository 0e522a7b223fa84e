"""Find the noise of a study's mean factors: measured by the study itself, else by the demo.

Noise is that of the report's headline: the average accuracy, else the average loss, else the loss on held-out
documents.
"""

from __future__ import annotations

from contextlib import suppress

from flows.study.configuration import Study
from sql.results import Busy, OutOfDate, ask
from sql.statistics.resolution import Noise

DEMO = Noise(0.171, 0.032, measured_on="ten demos (average accuracy, 2026-11-23)", items=1200)


def noise_of(study: Study) -> Noise:
    """Return the noise between the seeds of this study where its results hold several, else that of the demo."""
    if study.database.exists():
        with suppress(Busy, OutOfDate):  # a plan needs no results file
            for row in ask(study.database, "headline_noise", study=study.study_id).itertuples():
                return Noise(row.seed_deviation, row.item_error, f"this study's own results ({row.metric})")
    return DEMO
