"""Which experts serve which depths."""

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from reports.figures.experts import experts_of_depths, order_of_experts, selections
from reports.figures.heat_map import LEVELS, indexed_png
from reports.figures.rendering import Panel
from tests.reports.figures.frames import DRAWN, MODEL_RUNS

COUNTS = {(1, 0): 50, (2, 0): 50, (1, 1): 0, (2, 1): 100, (1, 2): 100, (2, 2): 0, (1, 3): 0, (2, 3): 0}
FRAME = pd.DataFrame([{"depth": d, "expert": e, "selections": n} for (d, e), n in COUNTS.items()])
FRAME = FRAME.assign(variant="DR", model_depth=2, run_id="s", tokens=5)


def pixels(image: bytes) -> np.ndarray:
    """The levels [row, column] of an indexed PNG."""
    chunks, rest = {}, image[8:]
    while rest:
        (length,) = struct.unpack(">I", rest[:4])
        kind, content, check = rest[4:8], rest[8 : 8 + length], rest[8 + length : 12 + length]
        assert struct.unpack(">I", check)[0] == zlib.crc32(kind + content)
        chunks[kind], rest = content, rest[12 + length :]
    width, height = struct.unpack(">II", chunks[b"IHDR"][:8])
    assert len(chunks[b"PLTE"]) == 3 * LEVELS
    lines = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, width + 1)
    assert not lines[:, 0].any()
    return lines[:, 1:]


def map_of(panel: Panel) -> np.ndarray:
    (url,) = [layer["mark"]["url"] for layer in panel.specification["layer"] if layer["mark"]["type"] == "image"]
    return pixels(base64.b64decode(url.removeprefix("data:image/png;base64,")))


@given(st.integers(1, 6), st.integers(1, 40))
def test_a_png_holds_every_level(height: int, width: int) -> None:
    levels = np.random.default_rng(height * width).integers(0, LEVELS, (height, width)).astype(np.uint8)
    assert (pixels(indexed_png(levels)) == levels).all()


def test_experts_are_ordered_from_those_of_few_depths_to_those_of_many() -> None:
    drawn = selections(FRAME, MODEL_RUNS, DRAWN)
    assert drawn is not None
    # Experts 2 and 1 have one depth, the first and the second; expert 0 has both; expert 3 was never selected.
    strong = LEVELS - 1
    half = int(np.sqrt(0.5) * LEVELS)
    assert map_of(drawn.panels[0]).tolist() == [[strong, 0, half], [0, strong, half]]
    assert "each of 3 experts" in drawn.panels[0].description
    assert selections(FRAME.assign(variant="LA"), MODEL_RUNS.assign(variant="LA"), DRAWN) is None


def test_the_experts_of_a_depth_are_shares_of_its_selections() -> None:
    drawn = experts_of_depths(FRAME, MODEL_RUNS, DRAWN)
    assert drawn is not None
    # Both depths make 150 selections: 100 of an expert of their own, 50 of expert 0.
    half = int(np.sqrt(0.5) * LEVELS)
    assert map_of(drawn.panels[0]).tolist() == [[LEVELS - 1, 0, half], [0, LEVELS - 1, half]]
    assert "gives one expert 66.7% of its selections, where even use would be 33.33%" in drawn.panels[0].description


def test_a_map_of_many_experts_has_a_column_for_each() -> None:
    rows = [{"depth": d, "expert": e, "selections": 1 + (d * e) % 5} for d in range(1, 33) for e in range(1000)]
    frame = pd.DataFrame(rows).assign(variant="DR", model_depth=32, run_id="s", tokens=5)
    drawn = selections(frame, MODEL_RUNS.assign(depth=32), DRAWN)
    assert drawn is not None
    assert map_of(drawn.panels[0]).shape == (32, 1000)


def test_groups_of_experts_are_sorted_by_depths_drawn_from_their_selections() -> None:
    shares = np.zeros((4, 60))
    shares[np.arange(60) % 4, np.arange(60)] = 1  # one depth each
    order = order_of_experts(shares)
    depths = shares[:, order].argmax(axis=0)
    assert depths.tolist() == sorted(depths.tolist())
    even = np.full((4, 400), 0.25)
    assert len(set(order_of_experts(even).tolist())) == 400
    mixed = order_of_experts(np.hstack([even, shares]))
    assert set(mixed[:60]) == set(range(400, 460)), "experts of one depth come first"
