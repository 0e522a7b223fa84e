"""The atlas of measured architectures, from Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dreamer_study.flows.atlas.table import read_atlas, table

if TYPE_CHECKING:
    import pandas as pd


def atlas(world: str = "mixture") -> pd.DataFrame:
    """Return the architectures that were measured in a world, those that learned most first.

    There is one row for each architecture. Those with a ratio for every ability come first, and of
    these the one with the fewest tokens. For each ability, such as `expressions`, the columns
    `expressions_ratio`, `expressions_low` and `expressions_high` are the training tokens over the
    baseline's to equal accuracy, with the 95 % interval; `expressions_bound` says that the ratio is
    a bound ("at least", "at most"), and `expressions_best` is the best accuracy. Other columns are
    the costs, the learning rate, the speed, and where the row comes from. Raises InputError if the
    atlas has no such world.
    """
    return table(read_atlas(world))
