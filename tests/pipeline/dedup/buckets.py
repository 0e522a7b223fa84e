"""The candidates of equal band hashes, found bucket by bucket."""

from itertools import pairwise


def star_and_chain(hashes: list[int], nodes: list[int]) -> set[tuple[int, int]]:
    pairs = set()
    for value in set(hashes):
        bucket = sorted(node for other, node in zip(hashes, nodes, strict=True) if other == value)
        pairs.update((bucket[0], node) for node in bucket[1:])
        pairs.update(pairwise(bucket))
    return pairs
