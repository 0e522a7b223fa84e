"""Count in how many sampled documents each n-gram of the items stands, leaving leaked items out.

An item that leaked often would make its own n-grams common, and so hide its edited copies. Two
kinds of documents are therefore not counted for the n-grams of a passage: documents that hold the
whole passage, and edited copies. Both edited copies and texts from one template hold half of the
n-grams. But texts from a template all lack the same n-grams, while copies, each edited in another
place, lack each n-gram only here and there:

>>> from dreamer_study.pipeline.decontaminate.settings import DecontaminationSettings
>>> from dreamer_study.pipeline.text.words import text_column
>>> item = "the cat sat on a mat and saw nine black birds fly over her old garden wall at noon"
>>> words = item.split()
>>> index = ItemIndex(pa.table({"question": [item], "answer": [""]}), DecontaminationSettings())
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

# Passages that hold an n-gram: an n-gram of more passages tells nothing about one of them.
_FEW_PASSAGES = 16
# A document with this share of a passage's n-grams of few passages may be an edited copy.
_ALIKE = 0.5
# Of a passage's possible copies, this share holds each of its n-grams if they are copies.
_EVENLY = 0.25


class Frequencies:
    """Count the sampled documents that hold each masked n-gram of an item index."""

    def __init__(self, index: ItemIndex) -> None:
        """Prepare the counts.

        `literal` are n-grams with their numbers, of few passages: edited copies are recognised by
        these.
        """
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
        # Of these, by n-gram of the passage: those that hold the n-gram, and those for which
        # `counts` has counted it.
        self.alike_holding = np.zeros(len(index.short), np.int64)
        self.alike_counted = np.zeros(len(index.short), np.int64)

    def add(self, texts: pa.Array) -> None:
        """Count the documents of a `text_column`."""
        index = self.index
        size = index.masked.size
        for _, block in word_blocks(texts):
            words = read_numbers(block)
            documents, grams, at = index.hits(words)
            # whole copies: document copied[i] holds passage leaked[i] word for word
            copied, leaked, _ = index.copies(words, documents, grams, at)
            inside, owners = self._grams_of(leaked, copied)
            # A pair (document, n-gram) is one number here, document * size + n-gram.
            copies = owners * size + index.places[inside]
            counted = np.setdiff1d(unique(documents * size + grams), copies, assume_unique=True)
            self.counts += np.bincount(counted % size, minlength=size)

            literal = gathered_ids(words.ids, at, at + index.settings.short_words)
            indexed, places = self.literal.table.find(literal)
            documents = documents[indexed]
            held = documents * self.literal.size + places
            self._add_possible_copies(documents, places, copied, leaked, counted, held)

    def _add_possible_copies(
        self,
        documents: np.ndarray,
        places: np.ndarray,
        copied: np.ndarray,
        leaked: np.ndarray,
        counted: np.ndarray,
        held: np.ndarray,
    ) -> None:
        """Count the documents that may be edited copies, without the whole copies.

        `documents` and `places` are the literal n-grams found; `counted` and `held` are the pairs
        of document and n-gram that `counts` has counted and that are there literally.
        """
        count = len(self.index.items)
        documents, passages, common = self.literal.common(documents, places)
        alike = common >= _ALIKE * self.literal_counts[passages]
        alike &= ~np.isin(documents * count + passages, copied * count + leaked)
        self.alike += np.bincount(passages[alike], minlength=count)
        inside, owners = self._grams_of(passages[alike], documents[alike])
        for sums, of_grams, pairs, size in (
            (self.alike_counted, self.index.places, counted, self.index.masked.size),
            (self.alike_holding, self.literal_places, held, self.literal.size),
        ):
            indexed = of_grams[inside] >= 0
            holds = indexed & np.isin(owners * size + of_grams[inside], pairs)
            sums += np.bincount(inside[holds], minlength=len(sums))

    def without_copies(self) -> np.ndarray:
        """Return the counts int64 of documents by masked n-gram, without copies of passages."""
        index = self.index
        uneven = self.literal_grams & (self.alike_holding < _EVENLY * self.alike[index.passage])
        copied = self.alike > 0
        copied[index.passage[uneven]] = False
        grams = copied[index.passage] & index.used
        copies = np.zeros_like(self.counts)
        # The maximum, no sum: similar passages have the same documents as possible copies.
        np.maximum.at(copies, index.places[grams], self.alike_counted[grams])
        return self.counts - copies

    def _grams_of(
        self, passages: np.ndarray, documents: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the short n-grams of these passages, concatenated, and the document of each."""
        starts = self.index.short_offsets[passages]
        stops = self.index.short_offsets[passages + 1]
        inside, offsets = ranges(starts, stops)
        return inside, np.repeat(documents, np.diff(offsets))
