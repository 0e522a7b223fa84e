"""Find the noise of a study's mean factors: measured by the study itself, else by the preset, else by the demo.

`noise.yaml` holds what the presets have measured. Noise is that of the report's headline: the average accuracy, else
the average loss, else the loss on held-out documents.
"""

from __future__ import annotations

from contextlib import suppress
from importlib import resources

from flows.study.configuration import Study
from flows.study.loading import read_yaml
from sql.results import Busy, OutOfDate, ask
from sql.statistics.resolution import Noise


def noise_of(study: Study) -> Noise:
    """Return the noise between the seeds of this study where its results hold several, else that of earlier studies."""
    if study.database.exists():
        with suppress(Busy, OutOfDate):  # a plan needs no results file
            for row in ask(study.database, "headline_noise", study=study.study_id).itertuples():
                return Noise(row.seed_deviation, row.item_error, f"this study's own results ({row.metric})")
    measured = read_yaml("noise.yaml", (resources.files("flows.study") / "noise.yaml").read_text())
    return Noise(**measured.get(study.name, measured["demo"]))
