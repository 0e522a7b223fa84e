"""Say how evenly the experts are used."""

from __future__ import annotations

import pandas as pd

from reports.data import baseline_of, without_baseline
from reports.text.names import depth_name
from reports.text.numbers import number


def balance(diversity: pd.DataFrame) -> str:
    """Say what the paper reports about balance, and how many experts a depth draws on; models in the order of rows."""
    text = (
        "Recurrent models are balanced over all depths together, so that a depth may prefer some experts. The paper "
        "reports a Gini coefficient of 0.075 for its DR+DA of depth 32."
    )
    compared = without_baseline(diversity[diversity["ratio"].notna()])
    for depth, models in compared.groupby("model_depth", sort=False):
        ratios = models.groupby("variant", sort=False)["ratio"].agg(["min", "max"])
        times = [
            f"{' to '.join(dict.fromkeys((number(low, 1), number(high, 1))))} times as many in {variant}"
            for variant, low, high in ratios.itertuples()
        ]
        text += (
            f" At {depth_name(depth).lower()}, the experts that carry 90% of a depth’s selections are "
            f"{', '.join(times)} as in {baseline_of(models)}."
        )
    return text + " In the paper it is 2 to 11 times." * bool(len(compared))
