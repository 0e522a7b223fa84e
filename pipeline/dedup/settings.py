"""Settings of deduplication."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.dedup.minhash import choose_bands
from pipeline.errors import InputError

GUARDS = ("numbers", "signs", "names", "answers", "functions")


@dataclass(frozen=True)
class Signing:
    """Hold what decides the keys and band hashes of a document: the part of `DedupSettings` that signing reads.

    `near=False` leaves band hashes out, `numbers=False` the digits, `questions=False` the keys of questions.
    """

    near: bool
    numbers: bool
    questions: bool
    words: int
    permutations: int
    seed: int
    bands: int
    rows: int


@dataclass(frozen=True)
class DedupSettings:
    """Define what counts as a duplicate. Raises InputError for values that make no sense.

    `near=False` removes exact duplicates only. `words` is the length of the n-grams; two documents are near duplicates
    from the Jaccard similarity `threshold` on, for which bands are chosen (`minhash.choose_bands`). `permutations` and
    `seed` are datasketch's. `guards` are described in `contradictions.py`. `responses_per_question` caps the documents
    with equal questions (None: no cap).
    """

    near: bool = True
    words: int = 5
    threshold: float = 0.7
    permutations: int = 128
    seed: int = 1
    guards: tuple[str, ...] = GUARDS
    responses_per_question: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "guards", tuple(self.guards))
        cap = self.responses_per_question
        _check(1 <= self.words <= 1000, f"words={self.words}: need 1 to 1000")
        _check(0 < self.threshold <= 1, f"threshold={self.threshold}: need 0 < threshold <= 1")
        _check(1 <= self.permutations <= 2**16, f"permutations={self.permutations}: need 1 to {2**16}")
        _check(0 <= self.seed < 2**32, f"seed={self.seed}: need 0 to {2**32 - 1}")
        _check(set(self.guards) <= set(GUARDS), f"guards={list(self.guards)}: choose from {', '.join(GUARDS)}")
        _check(cap is None or cap >= 1, f"responses_per_question={cap}: need at least 1, or none for no cap")

    @property
    def signing(self) -> Signing:
        """Select what decides the keys and band hashes of a document."""
        return Signing(
            self.near,
            "numbers" in self.guards,
            self.responses_per_question is not None,
            *(self.words, self.permutations, self.seed, *choose_bands(self.threshold, self.permutations)),
        )


def _check(right: bool, rule: str) -> None:
    if not right:
        raise InputError(f"deduplicate: {rule}")
