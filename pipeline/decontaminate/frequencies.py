"""Count in how many sampled documents each n-gram of the items stands, leaving leaked items out.

An item that leaked often would make its own n-grams common, and so hide its edited copies. Two
kinds of documents are therefore not counted for the n-grams of a passage: documents that hold the
whole passage, and edited copies. Both edited copies and texts from one template hold half of the
n-grams. But texts from a template all lack the same n-grams, while copies, each edited in another
place, lack each n-gram only here and there:

>>> from dreamer_study.pipeline.decontaminate.settings import DecontaminationSettings
>>> from dreamer_study.pipeline.text.words import text_column
>>> words = "the cat sat on a mat and saw nine black birds fly over her old garden wall at noon".split()
>>> index = ItemIndex(pa.table({"question": [" ".join(words)], "answer": [""]}), DecontaminationSettings())
>>> def most_frequent(documents):
...     frequencies = Frequencies(index)
...     frequencies.add(text_column(pa.array(documents)))
...     return int(frequencies.without_copies().max())
>>> edited = [" ".join([*words[:i], "new", *words[i + 1 :]]) for i in range(19)]
>>> template = [" ".join([*words[:9], "new" * i, *words[10:]]) for i in range(19)]
>>> most_frequent(edited), most_frequent(template)
(0, 19)
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from dreamer_study.pipeline.decontaminate.item_index import InvertedIndex, ItemIndex
from dreamer_study.pipeline.text.arrays import ranges, unique
from dreamer_study.pipeline.text.ngrams import gathered_ids
from dreamer_study.pipeline.text.number_words import read_numbers
from dreamer_study.pipeline.text.words import word_blocks

_FEW_PASSAGES = 16  # that hold an n-gram; those of more passages tell nothing about one of them
# of a passage's n-grams of few passages, held as they are: the document may be an edited copy
_ALIKE = 0.5
_EVENLY = 0.25  # of a passage's possible copies, which hold each of its n-grams if they are copies


class Frequencies:
    """Count the sampled documents that hold each masked n-gram of an item index."""

    def __init__(self, index: ItemIndex) -> None:
        self.index = index
        self.literal_grams = index.used & (index.repeats <= _FEW_PASSAGES)
        self.literal = InvertedIndex(
            index.short[self.literal_grams], index.passage[self.literal_grams]
        )
        self.literal_places = np.full(len(index.short), -1)
        self.literal_places[self.literal_grams] = self.literal.places
        self.literal_counts = np.bincount(self.literal.passages, minlength=len(index.items))
        self.counts = np.zeros(index.masked.size, np.int64)
        self.alike = np.zeros(len(index.items), np.int64)  # possible copies of each passage
        # of these, those that hold an n-gram of the passage, and those for which it was counted
        self.alike_holding, self.alike_counted = (
            np.zeros(len(index.short), np.int64) for _ in range(2)
        )

    def add(self, texts: pa.Array) -> None:
        """Count the documents of a `text_column`."""
        index, literal, count, size = (
            self.index,
            self.literal,
            len(self.index.items),
            self.index.masked.size,
        )
        for _, block in word_blocks(texts):
            words = read_numbers(block)
            documents, grams, at = index.hits(words)
            copied, leaked, _ = index.copies(words, documents, grams, at)
            inside, owners = self._grams_of(leaked, copied)
            copies = owners * size + index.places[inside]
            counted = np.setdiff1d(unique(documents * size + grams), copies, assume_unique=True)
            self.counts += np.bincount(counted % size, minlength=size)

            known, places = literal.table.find(
                gathered_ids(words.ids, at, at + index.settings.short_words)
            )
            held = documents[known] * literal.size + places
            documents, passages, common = literal.common(documents[known], places)
            alike = common >= _ALIKE * self.literal_counts[passages]
            alike &= ~np.isin(documents * count + passages, copied * count + leaked)
            self.alike += np.bincount(passages[alike], minlength=count)
            inside, owners = self._grams_of(passages[alike], documents[alike])
            for sums, places, keys, grams_in_all in (
                (self.alike_counted, index.places, counted, size),
                (self.alike_holding, self.literal_places, held, literal.size),
            ):
                found = (places[inside] >= 0) & np.isin(
                    owners * grams_in_all + places[inside], keys
                )
                sums += np.bincount(inside[found], minlength=len(sums))

    def without_copies(self) -> np.ndarray:
        """Return the counts int64 of documents by masked n-gram, edited copies of passages left
        out."""
        index = self.index
        uneven = self.literal_grams & (self.alike_holding < _EVENLY * self.alike[index.passage])
        copied = self.alike > 0
        copied[index.passage[uneven]] = False
        grams = copied[index.passage] & index.used
        copies = np.zeros_like(self.counts)
        # similar passages: the same documents
        np.maximum.at(copies, index.places[grams], self.alike_counted[grams])
        return self.counts - copies

    def _grams_of(
        self, passages: np.ndarray, documents: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the short n-grams of these passages, concatenated, and the document that goes with
        each."""
        inside, offsets = ranges(
            self.index.short_offsets[passages], self.index.short_offsets[passages + 1]
        )
        return inside, np.repeat(documents, np.diff(offsets))
