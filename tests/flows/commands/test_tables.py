"""Values of tables as text."""

from __future__ import annotations

import pytest

from flows.commands.tables import cell


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.123456, "0.1235"),
        (9999.0, "9,999"),
        (12345.6, "12,346"),
        (524288.0, "524,288"),
        (1e6, "1,000,000"),
        (-48000.0, "-48,000"),
        (12345, "12,345"),
        (float("nan"), "-"),
        (float("inf"), "unbounded"),
        (True, "True"),
    ],
)
def test_numbers_have_no_exponents(value: object, text: str) -> None:
    assert cell(value) == text
