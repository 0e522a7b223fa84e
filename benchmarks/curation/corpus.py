"""Write a synthetic corpus of word problems whose duplicates are known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from dreamer_study.pipeline.storage.documents import SCHEMA, DocumentWriter, read_documents

LETTERS = np.array(list("abcdefghijklmnopqrstuvwxyz"))
MEAN_WORDS = 150
BATCH = 20_000
MOST_ORIGINALS = 50_000  # that are kept to be repeated
KNOWN = "known.npz"


@dataclass(frozen=True)
class Corpus:
    """A corpus: its folder, its characters, and pairs of rows by kind ("exact", "near",
    "numbers")."""

    folder: Path
    characters: int
    pairs: dict[str, np.ndarray]


def corpus(folder: Path, documents: int, mean_words: int = MEAN_WORDS) -> Corpus:
    """Open the corpus of that many documents under `folder`, or write it."""
    place = folder / f"corpus-{documents}-of-{mean_words}-words"
    if not (place / KNOWN).exists():
        _write(place, documents, mean_words)
    with np.load(place / KNOWN) as known:
        pairs = {kind: known[kind] for kind in known.files if kind != "characters"}
        return Corpus(place, int(known["characters"]), pairs)


def texts_of(folder: Path) -> Iterator[str]:
    """Yield question and response of every document as one text."""
    for batch in read_documents(folder, columns=["question", "response"]):
        for question, response in zip(
            batch["question"].to_pylist(), batch["response"].to_pylist(), strict=True
        ):
            yield f"{question}\n{response}"


def _write(folder: Path, documents: int, mean_words: int) -> None:
    """Write `documents` rows: 20 % near duplicates (random words exchanged, numbers kept), 3 %
    exact ones, 2 % equal words with other numbers; the rest are originals of 0.4 to 1.6 times the
    mean words, one in ten a number.

    A near duplicate has one exchange for every 8 to 100 words, so that Jaccard similarities reach
    from 0.4 to 0.95.
    """
    random = np.random.default_rng(0)
    words = np.array(
        ["".join(random.choice(LETTERS, length)) for length in random.integers(2, 10, 4000)], object
    )
    pairs: dict[str, list[tuple[int, int]]] = {"exact": [], "near": [], "numbers": []}
    originals: list[tuple[int, np.ndarray]] = []
    characters = 0
    with DocumentWriter(folder) as writer:
        for start in range(0, documents, BATCH):
            texts = []
            for row in range(start, min(start + BATCH, documents)):
                kind = random.random()
                if originals and kind < 0.25:
                    if kind < 0.2:
                        name = "near"
                    elif kind < 0.23:
                        name = "exact"
                    else:
                        name = "numbers"
                    original, text = originals[random.integers(len(originals))]
                    pairs[name].append((original, row))
                    texts.append(_changed(random, text, words, name))
                    continue
                texts.append(_original(random, words, mean_words))
                if len(originals) < MOST_ORIGINALS:
                    originals.append((row, texts[-1]))
                else:
                    originals[random.integers(MOST_ORIGINALS)] = (row, texts[-1])
            table = _as_table(texts, start)
            characters += sum(map(len, table["response"].to_pylist()))
            writer.keep(table)
    known = {kind: np.array(rows, np.int64).reshape(-1, 2) for kind, rows in pairs.items()}
    np.savez(folder / KNOWN, characters=characters, **known)


def _original(random: np.random.Generator, words: np.ndarray, mean_words: int) -> np.ndarray:
    """Draw one document as an array of words; the commonest word makes up one in thirty."""
    count = random.integers(2 * mean_words // 5, 8 * mean_words // 5)
    text = words[(len(words) * random.random(count) ** 2).astype(int)]
    at = np.flatnonzero(random.random(count) < 0.1)
    text[at] = random.integers(2, 500, len(at)).astype(str)
    return text


def _changed(
    random: np.random.Generator, text: np.ndarray, words: np.ndarray, kind: str
) -> np.ndarray:
    """Copy a document with words or numbers exchanged, or as it is."""
    text = text.copy()
    numeric = np.array([word.isdigit() for word in text])
    if kind == "numbers":
        text[numeric] = [str(int(number) + 1) for number in text[numeric]]
    elif kind == "near":
        at = np.flatnonzero(~numeric)
        exchanges = min(len(at), max(1, int(len(text) / random.uniform(8, 100))))
        text[random.choice(at, exchanges, replace=False)] = random.choice(words, exchanges)
    return text


def _as_table(texts: list[np.ndarray], start: int) -> pa.Table:
    """Arrange texts as documents of one source: a question of twenty words, the rest the
    response."""
    rows = range(start, start + len(texts))
    columns = {
        "id": [f"synthetic:{row}" for row in rows],
        "source": ["synthetic"] * len(texts),
        "row": list(rows),
        "question": [" ".join(text[:20]).capitalize() + "?" for text in texts],
        "response": [_sentences(text[20:]) for text in texts],
        "answer": [""] * len(texts),
    }
    return pa.table(columns, schema=SCHEMA)


def _sentences(text: np.ndarray) -> str:
    """Join words with a full stop after every dozen."""
    return ". ".join(" ".join(text[i : i + 12]) for i in range(0, len(text), 12)) + "."
