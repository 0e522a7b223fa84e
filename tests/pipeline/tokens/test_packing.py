"""Rows hold every document once, whole where it fits, and hardly any padding."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import InputError
from pipeline.tokens.packing import fit_rows, write_token_shard


@st.composite
def lengths_and_row(draw: st.DrawFn) -> tuple[list[int], int]:
    row = draw(st.integers(1, 80))
    return draw(st.lists(st.integers(1, row), max_size=200)), row


@settings(max_examples=150)
@given(lengths_and_row(), st.integers(1, 50))
def test_every_document_lies_in_one_row_and_on_no_other(case: tuple[list[int], int], look_ahead: int) -> None:
    lengths, row = case
    offsets, rows = fit_rows(lengths, row, look_ahead)
    taken = np.zeros(rows * row, int)
    for offset, length in zip(offsets, lengths, strict=True):
        assert offset // row == (offset + length - 1) // row
        taken[offset : offset + length] += 1
    assert taken.max(initial=0) <= 1
    assert taken.sum() == sum(lengths)
    filled = taken.reshape(rows, row)
    assert (np.diff(filled, axis=1) <= 0).all(), "padding only at the end of a row"
    assert filled.any(axis=1).all(), "no empty row"
    assert rows <= 2 * -(-sum(lengths) // row), "never twice the rows that the tokens fill"


@pytest.mark.parametrize(
    ("typical", "spread", "row", "most"), [(38, 0.3, 128, 0.01), (38, 0.3, 1024, 0.002), (300, 0.7, 1024, 0.005)]
)
def test_padding_is_small(typical: float, spread: float, row: int, most: float) -> None:
    drawn = np.random.default_rng(0).lognormal(np.log(typical), spread, 20_000)
    lengths = np.clip(drawn, 10, row).astype(int)
    _, rows = fit_rows(lengths.tolist(), row)
    assert 1 - lengths.sum() / (rows * row) < most


def test_documents_keep_their_order_but_for_the_ends_of_rows() -> None:
    lengths = np.random.default_rng(1).integers(20, 60, 5000)
    offsets, _ = fit_rows(lengths.tolist(), 1024)
    rank = np.argsort(np.argsort(offsets))
    moved = np.abs(rank - np.arange(len(rank)))
    assert np.median(moved) < 10 * 1024 / 40
    by_half = [lengths[offsets < np.median(offsets)].mean(), lengths[offsets >= np.median(offsets)].mean()]
    assert abs(by_half[0] - by_half[1]) < 2, "long and short documents are spread evenly"


def test_long_documents_are_cut_into_rows_and_the_prompt_stays_known(tmp_path) -> None:
    dtype, row, end = np.dtype("uint16"), 8, 999
    tokens = np.arange(100, 100 + 21 + 5, dtype=dtype)
    documents = (np.array([5, 0]), np.array([10, 2]), np.array([21, 5]))  # the first of 21 tokens
    assert write_token_shard(tmp_path, 3, tokens, *documents, row=row, end_token=end) == {"rows": 4, "documents": 4}
    flat = np.fromfile(tmp_path / "tokens-00003.bin", "<u2")
    index = np.load(tmp_path / "index-00003.npy")
    assert index.dtype == np.int64
    assert len(flat) == 4 * row
    pieces = {tuple(flat[start:end_]): response - start for start, response, end_ in index}
    first = tuple(range(105, 126))
    assert pieces == {first[:8]: 8, first[8:16]: 2, first[16:]: 0, tuple(range(100, 105)): 2}
    covered = np.concatenate([np.arange(start, end_) for start, _, end_ in index])
    assert (np.delete(flat, covered) == end).all()
    assert (np.diff(index[:, 0]) > 0).all()


@pytest.mark.parametrize("lengths", [[3, 9], [0, 4]])
def test_documents_that_fit_no_row_are_refused(lengths: list[int]) -> None:
    with pytest.raises(InputError, match="but rows take 1 to 8"):
        fit_rows(lengths, 8)
