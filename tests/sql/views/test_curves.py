"""Tokens to an accuracy."""

from __future__ import annotations

import pytest

from tests.sql.by_hand import enter


def test_tokens_to(sql):
    enter(
        sql, {"LA": {"t": {10: 0.1, 1000: 0.5}}, "DR": {"t": {10: 0.3, 1000: 0.6}}, "mine": {"t": {10: 0.1, 1000: 0.2}}}
    )
    rows = sql.execute(
        "select variant, tokens, tokens_interpolated, bound, tokens_trained from tokens_to('t', 0.3)"
    ).fetchall()
    assert rows == [
        ("DR", 10, 10.0, "at most", 1000),
        ("LA", 1000, pytest.approx(100), "exactly", 1000),
        ("mine", None, None, "more than", 1000),
    ]
