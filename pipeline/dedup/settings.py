"""Settings of deduplication."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from dreamer_study.pipeline.dedup.minhash import choose_bands

Guard = Literal["numbers", "signs", "names", "answers", "functions"]
GUARDS: tuple[Guard, ...] = get_args(Guard)


@dataclass(frozen=True)
class Signing:
    """Hold what decides the keys and band hashes of a document.

    It is the part of `DedupSettings` that signing reads: `near=False` leaves band hashes out,
    `numbers=False` the digits, `questions=False` the keys of questions.
    """

    near: bool
    numbers: bool
    questions: bool
    words: int
    permutations: int
    seed: int
    bands: int
    rows: int


@dataclass(frozen=True, config=ConfigDict(use_attribute_docstrings=True))
class DedupSettings:
    """Define what counts as a duplicate. Raises ValueError for values that make no sense.

    `near=False` removes exact duplicates only. `words` is the length of the n-grams; two documents
    are near duplicates from the Jaccard similarity `threshold` on, for which bands are chosen
    (`minhash.choose_bands`). `permutations` and `seed` are datasketch's. `guards` are described in
    `contradictions.py`. `responses_per_question` caps the documents with equal questions (None: no
    cap). `remove=False` keeps every document, whatever the other settings say.
    """

    near: bool = True
    """Also remove near duplicates; false: exact duplicates only."""
    words: Annotated[int, Field(ge=1, le=1000)] = 5
    """Words of an n-gram, by which documents are compared."""
    threshold: Annotated[float, Field(gt=0, le=1)] = 0.7
    """Jaccard similarity of the n-grams from which two documents are near duplicates."""
    permutations: Annotated[int, Field(ge=1, le=2**16)] = 128
    """Hash functions of a MinHash signature: more find near duplicates more surely, and take more
    time.
    """
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 1
    """Seed of the hash functions."""
    guards: tuple[Guard, ...] = GUARDS
    """Facts that near duplicates must share; documents that differ in one are different problems.
    """
    responses_per_question: Annotated[int, Field(ge=1)] | None = None
    """Most documents with equal questions; null: no cap."""
    remove: bool = True
    """Remove duplicates; false: keep every document, to measure what removing them is worth."""

    @property
    def signing(self) -> Signing:
        """Select what decides the keys and band hashes of a document."""
        bands, rows = choose_bands(self.threshold, self.permutations)
        return Signing(
            near=self.near and self.remove,
            numbers="numbers" in self.guards,
            questions=self.responses_per_question is not None,
            words=self.words,
            permutations=self.permutations,
            seed=self.seed,
            bands=bands,
            rows=rows,
        )
