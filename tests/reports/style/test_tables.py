"""Tables sort by the numbers that they show."""

from __future__ import annotations

import re

from reports.page.report import STYLE
from reports.text.numbers import TIMES


def test_every_unit_of_time_has_its_size() -> None:
    (listed,) = re.findall(r"^const SIZES = {(.*)};", (STYLE / "tables.js").read_text(), re.MULTILINE)
    sizes = dict(part.strip().split(": ") for part in listed.split(","))
    assert {unit: float(sizes[unit]) for unit in ("s", *TIMES)} == {"s": 1, **TIMES}
