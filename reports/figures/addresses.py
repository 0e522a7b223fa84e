"""Tell before any work whether figures can be drawn in this process."""

from __future__ import annotations

from dreamer_study.pipeline.errors import check_addresses

DRAWING = 70e9  # bytes of addresses that V8, by which figures are drawn, reserves: 67.4 measured


def check_drawing() -> None:
    """Raise InputError where this process has too few addresses to draw figures."""
    check_addresses(DRAWING, "drawing figures")
