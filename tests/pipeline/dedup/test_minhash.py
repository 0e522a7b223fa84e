"""Signatures and candidates equal to datasketch's, and bands that find what they promise."""

import numpy as np
import pytest
from datasketch import MinHash, MinHashLSH
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.dedup.minhash import EMPTY, band_hashes, choose_bands, detection, short_ids, signatures


def flat(sets: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    values = np.array([value for members in sets for value in members], np.uint64)
    return values, np.concatenate([[0], np.cumsum([len(members) for members in sets])]).astype(np.int64)


def sketch(members: list[int], count: int, seed: int) -> MinHash:
    found = MinHash(num_perm=count, seed=seed, scheme="affine32", hashfunc=int)
    found.update_batch(short_ids(np.array(members, np.uint64)).tolist())
    return found


@settings(max_examples=60)
@given(st.lists(st.lists(st.integers(0, 2**64 - 1), max_size=12), max_size=8), st.sampled_from([1, 16, 128]))
def test_signatures_are_datasketchs(sets: list[list[int]], count: int) -> None:
    found = signatures(*flat(sets), count, seed=3)
    assert found.shape == (len(sets), count)
    assert found.dtype == np.uint32
    for row, members in zip(found, sets, strict=True):
        assert (row == sketch(members, count, 3).hashvalues).all()


def test_signatures_across_blocks() -> None:
    random = np.random.default_rng(0)
    sizes = [0, 1, 70_000, 3, 0, 140_000, 5, 0]
    sets = [random.integers(0, 2**64, size, np.uint64).tolist() for size in sizes]
    found = signatures(*flat(sets), 8)
    for row, members in zip(found, sets, strict=True):
        assert (row == sketch(members, 8, 1).hashvalues).all()
    assert (found[0] == EMPTY).all()


@pytest.mark.parametrize(("threshold", "expected"), [(0.7, (25, 5)), (0.8, (18, 7)), (1.0, (1, 128))])
def test_bands_detect_at_the_threshold(threshold: float, expected: tuple[int, int]) -> None:
    assert choose_bands(threshold, 128) == expected
    assert detection(threshold, *expected) >= 0.95


def test_shared_bands_are_datasketchs_candidates() -> None:
    random = np.random.default_rng(1)
    sets = []
    for _ in range(150):
        members = random.integers(0, 2**64, 60, np.uint64)
        sets.append(members.tolist())
        for share in (0.1, 0.3, 0.5):
            other = members.copy()
            other[random.random(60) < share] = random.integers(0, 2**64, dtype=np.uint64)
            sets.append(other.tolist())
    hashes = band_hashes(signatures(*flat(sets)), 21, 6)
    assert hashes.shape == (21, len(sets))
    found = {
        (a, b)
        for band in hashes
        for bucket in (
            np.flatnonzero(band == value)
            for value, n in zip(*np.unique(band, return_counts=True), strict=True)
            if n > 1
        )
        for a in bucket.tolist()
        for b in bucket.tolist()
        if a < b
    }
    index, expected = MinHashLSH(num_perm=128, params=(21, 6)), set()
    for key, members in enumerate(sets):
        expected |= {(other, key) for other in index.query(sketch(members, 128, 1))}
        index.insert(key, sketch(members, 128, 1))
    assert found == expected
    assert len(found) > 200
