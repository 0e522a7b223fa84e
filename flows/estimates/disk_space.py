"""Estimate what the data of a study surely take of the disk."""

from __future__ import annotations

from dreamer_study.flows.estimates.data_needs import data_needs
from dreamer_study.flows.study.configuration import Study
from dreamer_study.flows.study.data_section import BUILTIN

# Of what the data stages would write where nothing is dropped: curation may drop the rest.
SURELY_KEPT = 0.5
ITEM_BYTES = 30  # of an item of the built-in world's benchmarks, compressed


def data_bytes(study: Study) -> float:
    """Estimate the bytes that the data of a study take at least.

    Sources of unknown size count as none.
    """
    items = study.data.world.items if BUILTIN in study.evaluation.benchmarks else 0
    return SURELY_KEPT * data_needs(study).written + ITEM_BYTES * items
