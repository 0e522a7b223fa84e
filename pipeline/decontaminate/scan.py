"""Scan documents for the passages of an item index.

A passage is found in one of the grades that `DecontaminationSettings` explains: word for word
(`copies` of the index), edited (`agreement`), or by its numbers and final answer (`judgement`).
Documents are compared where they hold particular n-grams of a passage, or where their question has
exactly the numbers of a passage and about its length.

>>> from dreamer_study.pipeline.decontaminate.settings import DecontaminationSettings
>>> item = "Ann has 3 red pens and 4 blue cups in her bag, and Ben has none at all"
>>> index = ItemIndex(pa.table({"question": [item], "answer": [""]}), DecontaminationSettings())
>>> index.settle(np.zeros(index.masked.size, np.int64), common=20)
>>> edited = item.replace("bag", "box")
>>> other = item.replace("3", "5").replace("4", "6")
>>> documents = pa.array([f"Now: {item}?", edited, other, "Ann has 3 red hats"])
>>> empty = pa.array([""] * 4)
>>> for match in search(index, documents, empty, empty):
...     print(match.document, match.grade, round(match.coverage, 2))
0 exact 1.0
1 overlap 0.64
2 template 1.0
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dreamer_study.pipeline.decontaminate.agreement import stands_alone
from dreamer_study.pipeline.decontaminate.contest_forms import plain_questions
from dreamer_study.pipeline.decontaminate.item_index import ItemIndex
from dreamer_study.pipeline.decontaminate.judgement import Problem, have_same_answer, judge
from dreamer_study.pipeline.decontaminate.omissions import column_without_figures
from dreamer_study.pipeline.decontaminate.passages import QUESTION, SOLUTION
from dreamer_study.pipeline.decontaminate.settings import EXACT, OVERLAP, TEMPLATE
from dreamer_study.pipeline.decontaminate.settings import SOLUTION as GRADE_OF_SOLUTIONS
from dreamer_study.pipeline.text.arrays import ranges
from dreamer_study.pipeline.text.frames import frames
from dreamer_study.pipeline.text.instructions import column_without_instructions
from dreamer_study.pipeline.text.ngrams import gathered_ids
from dreamer_study.pipeline.text.number_words import read_numbers
from dreamer_study.pipeline.text.words import Words, number_sums, text_column, word_blocks

# Of a passage's words: a question with its numbers may be so much longer or shorter.
_LENGTHS_APART = 0.3
_LABEL_WORDS = 2  # before a short question
_MOST_FRAME = 36  # words before and behind a short question that only frame it
_LEAST_FRAMED = 2  # words of a question in a frame
BLOCK_BYTES = 1 << 19  # of text; few documents of a block have anything in common with an item
_COPIES = (EXACT, OVERLAP)
Pair = tuple[int, int]  # document in a block, passage
# Grade (None where only `judge` may find one) and coverage.
Found = dict[Pair, tuple[str | None, float]]


@dataclass(frozen=True)
class Match:
    """Describe one item found in one document; `coverage` by masked short n-grams, 1 if exact."""

    document: int
    item: int
    grade: str
    coverage: float


def search(
    index: ItemIndex, questions: pa.Array, responses: pa.Array, answers: pa.Array
) -> list[Match]:
    """Find all passages of a settled index in a batch of documents; `Match.document` is the row.

    A question in the form of a contest is searched in its plain form, too: whoever wrote it edited
    what it asks.
    """
    matches = [*_search(index, questions, responses, answers)]
    rows, plain = plain_questions(questions)
    if not rows:
        return matches
    places = pa.array(rows)
    unknown = pa.array([""] * len(rows))
    copies = {(match.document, match.item) for match in matches if match.grade in _COPIES}
    edited = dict[Pair, Match]()
    for match in _search(index, pa.array(plain), responses.take(places), unknown):
        pair = rows[match.document], match.item
        if match.grade in _COPIES and pair not in copies:
            edited[pair] = replace(match, document=pair[0], grade=OVERLAP)
    others = [match for match in matches if (match.document, match.item) not in edited]
    return sorted([*others, *edited.values()], key=lambda match: match.document)


def _search(
    index: ItemIndex, questions: pa.Array, responses: pa.Array, answers: pa.Array
) -> Iterator[Match]:
    texts, question_bytes = _texts(questions, responses)
    for rows, block in word_blocks(texts, BLOCK_BYTES):
        words = read_numbers(block)
        ends = _ends_of_questions(words, question_bytes[rows])
        asked = _problems(words, ends, questions[rows], responses[rows], answers[rows])
        documents, grams, at = index.hits(words)
        copies = _whole_copies(index, words, ends, *index.copies(words, documents, grams, at))
        whole = [*_whole_questions(index, words, ends), *_framed_questions(index, words, ends)]
        exact = dict.fromkeys([*copies, *whole], (EXACT, 1.0))
        covered = _covered(index, words, documents, grams, at, exact)
        found = _same_numbers(index, words, ends, asked, covered | exact)
        found |= exact  # last: nothing regrades an exact finding
        for (document, passage), (grade, coverage) in sorted(found.items()):
            kind = index.passage_kinds[passage]
            if kind == QUESTION and index.lengths[passage] <= index.settings.many_words:
                grade = judge(index.problem_at(passage), asked(document), grade)
            elif kind == SOLUTION:
                grade = GRADE_OF_SOLUTIONS if grade != TEMPLATE else None
            # A passage that is an answer keeps its grade by words.
            if grade:
                yield Match(rows.start + document, int(index.items[passage]), grade, coverage)


def _ends_of_questions(words: Words, question_bytes: np.ndarray) -> np.ndarray:
    """Find the word behind each question; without a question, behind the whole text."""
    ends = np.searchsorted(words.starts, question_bytes + words.text_offsets[:-1])
    return np.where(ends > words.offsets[:-1], ends, words.offsets[1:])


def searched_text(questions: pa.Array, responses: pa.Array) -> pa.Array:
    """Join questions and responses without figures to one folded text each."""
    return text_column(column_without_figures(questions), column_without_figures(responses))


def _texts(questions: pa.Array, responses: pa.Array) -> tuple[pa.Array, np.ndarray]:
    """Join questions and responses to one text each, and count the bytes of each question in it.

    Questions are folded first, alone, as folding changes their bytes. Closing instructions belong
    to the text, not to its question. Behind a folded question are line breaks: any place within
    them ends it.
    """
    folded = text_column(column_without_figures(questions))
    proper = column_without_instructions(folded)
    question_bytes = pc.binary_length(proper).to_numpy(zero_copy_only=False)
    return text_column(folded, column_without_figures(responses)), question_bytes


def _whole_copies(
    index: ItemIndex,
    words: Words,
    ends: np.ndarray,
    documents: np.ndarray,
    passages: np.ndarray,
    starts: np.ndarray,
) -> list[Pair]:
    """Select the passages found word for word that say enough.

    A short passage has to be the whole question, perhaps behind a label ("Question 3:"), or
    sentences of its own with a number or options; a passage that needs its options has to have them
    behind it.
    """
    is_long = index.lengths[passages] >= index.settings.few_words
    copies = []
    for sure, document, passage, start in zip(
        is_long.tolist(), documents.tolist(), passages.tolist(), starts.tolist(), strict=True
    ):
        stop = start + int(index.lengths[passage])
        inside = slice(*words.offsets[document : document + 2].tolist())
        if not sure and not (start == inside.start and stop == ends[document]):
            is_labelled = start - inside.start <= _LABEL_WORDS and stop == ends[document]
            telling = index.numbers[passage] or passage in index.options or is_labelled
            is_found = telling and stands_alone(words, start, stop, inside)
            own_words = (stop - start) // 2 if index.numbers[passage] else 1
            question = slice(inside.start, int(ends[document]))
            if not is_found and not _is_framed(words, document, question, start, stop, own_words):
                continue
        behind = slice(stop, inside.stop)
        if passage in index.options and not index.passage_at(passage).has_options(words, behind):
            continue
        copies.append((document, passage))
    return copies


def _whole_questions(index: ItemIndex, words: Words, ends: np.ndarray) -> Iterable[Pair]:
    """Find short questions that equal a short question of an item.

    Longer ones are found as copies.
    """
    first = words.offsets[:-1]
    short = np.flatnonzero((ends > first) & (ends < first + index.settings.short_words))
    questions = gathered_ids(words.ids, first[short], ends[short])
    documents, places = index.whole.table.find(questions)
    documents, passages, _ = index.whole.common(short[documents], places)
    for document, passage in _pairs(documents, passages):
        behind = slice(int(ends[document]), int(words.offsets[document + 1]))
        if index.passage_at(passage).has_options(words, behind):
            yield document, passage


def _framed_questions(index: ItemIndex, words: Words, ends: np.ndarray) -> Iterator[Pair]:
    """Find questions below the length of an n-gram that a document asks in a frame ("3) ...")."""
    if not len(index.whole.table.table):
        return
    first = words.offsets[:-1]
    sizes = ends - first
    for length in range(_LEAST_FRAMED, index.settings.short_words):
        framed = (sizes > length) & (sizes <= length + _MOST_FRAME)
        documents = np.flatnonzero(framed)
        starts, _ = ranges(first[documents], ends[documents] - length + 1)
        at, places = index.whole.table.find(gathered_ids(words.ids, starts, starts + length))
        for start, place in zip(starts[at].tolist(), places.tolist(), strict=True):
            document = int(np.searchsorted(words.offsets, start, "right")) - 1
            question = slice(int(first[document]), int(ends[document]))
            behind = slice(question.stop, int(words.offsets[document + 1]))
            for passage in index.whole.passages_of(place):
                own_words = 1 if index.numbers[passage] else 0
                if not _is_framed(words, document, question, start, start + length, own_words):
                    continue
                if index.passage_at(passage).has_options(words, behind):
                    yield document, passage


def _is_framed(
    words: Words, document: int, question: slice, start: int, stop: int, own_words: int
) -> bool:
    """Test whether what a question holds beside the words `start:stop` only frames them."""
    if not (question.start <= start and stop <= question.stop):
        return False
    if stop - start + _MOST_FRAME < question.stop - question.start:
        return False
    before = words.text[words.text_offsets[document] : words.starts[start]]
    last = words.offsets[document + 1]
    end = words.text_offsets[document + 1] if question.stop == last else words.starts[question.stop]
    behind = words.text[words.ends[stop - 1] : end]
    return frames(_decoded(before), _decoded(behind), own_words)


def _decoded(text: np.ndarray) -> str:
    return text.tobytes().decode(errors="replace")


def _covered(
    index: ItemIndex,
    words: Words,
    documents: np.ndarray,
    grams: np.ndarray,
    at: np.ndarray,
    exact: Found,
) -> Found:
    """Grade the documents that hold enough particular n-grams of a passage.

    `exact` pairs are left out.
    """
    particular = index.particular[grams]
    documents = documents[particular]
    grams = grams[particular]
    at = at[particular]
    met, passages, counts = index.masked.common(documents, grams)
    enough = (counts >= index.needed[passages]) & index.graded[passages]
    found: Found = {}
    for document, passage in _pairs(met[enough], passages[enough]):
        if (document, passage) in exact:
            continue
        here = slice(*np.searchsorted(documents, (document, document + 1)))  # they ascend
        text = slice(*words.offsets[document : document + 2].tolist())
        grade, coverage = index.passage_at(passage).grade(words, text, grams[here], at[here])
        if grade:
            found[document, passage] = (grade, coverage)
    return found


def _same_numbers(
    index: ItemIndex,
    words: Words,
    ends: np.ndarray,
    asked: Callable[[int], Problem],
    by_words: Found,
) -> Found:
    """Compare the questions that have all the numbers of a passage and no others.

    They may be copies, or `judge` may find a grade for them. Returns the findings `by_words`, of
    which those that are no copy are compared too, with these.
    """
    first = words.offsets[:-1]
    # One sum for each question: what `find` returns first are the documents.
    documents, places = index.of_numbers.table.find(
        number_sums(words.ids, words.kinds, first, ends)
    )
    documents, passages, _ = index.of_numbers.common(documents, places)
    difference = np.abs((ends - first)[documents] - index.lengths[passages])
    is_near = difference <= np.maximum(_LENGTHS_APART * index.lengths[passages], 1)
    is_near &= index.lengths[passages] >= index.settings.shortest
    found = dict(by_words)
    for pair, near in zip(_pairs(documents, passages), is_near.tolist(), strict=True):
        grade, coverage = by_words.get(pair, (None, 0.0))
        if grade not in (None, TEMPLATE):
            continue
        document, passage = pair
        item = index.problem_at(passage)
        problem = asked(document)
        if not (near or have_same_answer(item, problem)) or not item.resembles(problem):
            continue
        target = index.passage_at(passage)
        question = slice(int(first[document]), int(ends[document]))
        text = slice(question.start, int(words.offsets[document + 1]))
        if near and target.is_copy(words, question, text):
            grade = OVERLAP
        found[pair] = grade, coverage or target.coverage(words, question)
    return found


def _problems(
    words: Words, ends: np.ndarray, questions: pa.Array, responses: pa.Array, answers: pa.Array
) -> Callable[[int], Problem]:
    """Return a function that describes the question of a document of a block."""

    @cache
    def problem(document: int) -> Problem:
        question = questions[document].as_py() or ""
        response = responses[document].as_py() or ""
        answer = answers[document].as_py() or ""
        place = slice(int(words.offsets[document]), int(ends[document]))
        ids = words.ids[place]
        kinds = words.kinds[place]
        if not question.strip():
            return Problem(response, answer, ids, kinds)
        return Problem(question, answer, ids, kinds, whole=f"{question}\n{response}")

    return problem


def _pairs(documents: np.ndarray, passages: np.ndarray) -> list[Pair]:
    return list(zip(documents.tolist(), passages.tolist(), strict=True))
