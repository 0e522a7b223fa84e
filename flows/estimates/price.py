"""Check the price of an hour of a device, as users give the price to plans and reports."""

from __future__ import annotations

import math

from dreamer_study.pipeline.errors import InputError


def check_price(price: float | None) -> None:
    """Raise InputError for a price that is no finite number of 0 or more."""
    if price is not None and not 0 <= price < math.inf:
        raise InputError(f"--price is {price:g}, but it must be a number of 0 or more")
