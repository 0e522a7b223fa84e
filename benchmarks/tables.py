"""Print what was measured as a table."""

from __future__ import annotations

import pandas as pd


def print_table(title: str, rows: list[dict[str, object]]) -> None:
    """Print rows with equal keys as aligned columns."""
    print(
        f"\n{title}\n{pd.DataFrame(rows).to_string(index=False, float_format='{:.3g}'.format)}",
        flush=True,
    )
