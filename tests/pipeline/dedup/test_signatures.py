"""What near duplicates are found by: words, hashes, labels, contradictions, documents at hand."""

import random
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasketch import MinHash
from hypothesis import given, settings
from hypothesis import strategies as st

import dreamer_study.pipeline.dedup.signing as signing_stage
from dreamer_study.pipeline.dedup.contradictions import (
    answer_ids,
    contradictions,
    digit_sequences,
    facts,
    function_ids,
)
from dreamer_study.pipeline.dedup.deduplicate import deduplicate
from dreamer_study.pipeline.dedup.document_table import DocumentTable
from dreamer_study.pipeline.dedup.minhash import (
    EMPTY,
    band_hashes,
    choose_bands,
    detection,
    short_ids,
    signatures,
)
from dreamer_study.pipeline.dedup.settings import GUARDS, DedupSettings
from dreamer_study.pipeline.dedup.signing import sign_source, without_labels
from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.storage.documents import Shard
from dreamer_study.pipeline.text.number_words import read_numbers
from dreamer_study.pipeline.text.words import text_column, word_blocks
from tests.pipeline.decontaminate.items import WORDS
from tests.pipeline.documents import read, table, write
from tests.pipeline.text.specification import TEXTS

EIGHT = "it is the one in the red box"


@pytest.mark.parametrize(
    ("texts", "answers", "guard"),
    [
        (("find x + 3", "find x - 3"), ("", ""), "signs"),
        (("find 3 + x", "find 3 - x"), ("", ""), "signs"),
        (("find x + 3", "find x, 3"), ("", ""), "functions"),
        (("find n! at most", "find n at most"), ("", ""), "functions"),
        ((r"find $[3,9)$ here", r"find \((3, 9]\) here"), ("", ""), "functions"),
        ((r"find $\left[3,9\right)$", r"find \([3, 9)\)"), ("", ""), None),
        ((r"find $\frac{a}{b} \le 5$", "find a/b ≤ 5"), ("", ""), None),
        (("find 3 + x", "find 4 + x"), ("", ""), "numbers"),
        (("now find it", "now find it"), (EIGHT, EIGHT.replace("red", "blue")), "answers"),
        (("now find it", "now find it"), (f"{EIGHT} here", f"{EIGHT} there"), None),  # prose
        (("now find it", "now find it"), (EIGHT, ""), None),
    ],
)
def test_problems_worded_alike_differ_by_a_guard(
    texts: tuple[str, str], answers: tuple[str, str], guard: str | None
) -> None:
    ((_, words),) = word_blocks(text_column(pa.array(texts)))
    found = facts(words, answer_ids(pa.array(answers)), function_ids(pa.array(texts)))
    (code,) = contradictions(found, np.array([0]), np.array([1]))
    assert (GUARDS[code - 1] if code else None) == guard


@pytest.mark.slow
@given(st.lists(TEXTS, min_size=1, max_size=5))
def test_texts_of_equal_numbers_have_equal_digits(texts: list[str]) -> None:
    found = digit_sequences(text_column(pa.array(texts)))
    numbers = np.concatenate(
        [
            read_numbers(words).number_sequences(ones=False)
            for _, words in word_blocks(text_column(pa.array(texts)))
        ]
    )
    for i in range(len(texts)):
        assert (found[numbers == numbers[i]] == found[i]).all()


NAMES = ["sin", "Cos", "arctan", "max", "log", "h", "minute", "cost", "f(", "gcd("]
# with i, s and k to who ignores case beyond ASCII
PIECES = st.sampled_from([*"aAfxz (\n.éıİſ\u212a", *NAMES])


@pytest.mark.slow
@given(st.lists(PIECES, max_size=12).map("".join))
def test_questions_without_a_function_are_told_apart_from_all_others(text: str) -> None:
    """A function is a name between other characters than ASCII letters, or a single letter before a
    parenthesis."""
    names = (
        "sin",
        "cos",
        "arctan",
        "max",
        "log",
        "gcd",
        "sinh",
        "cosh",
        "arctanh",
        "asin",
        "acos",
        "asinh",
        "acosh",
    )
    words = (
        "".join(c.lower() if c.isascii() and (c.isalpha() or c == "(") else " " for c in text)
        .replace("(", "( ")
        .split()
    )
    named = [w for w in words if w.rstrip("(") in names or (len(w) == 2 and w.endswith("("))]
    found = function_ids(pa.array([text, None, "plain words"]))
    assert (found[0] == found[2]) == (not named)
    assert found[1] == found[2]


def star_and_chain(hashes: list[int], nodes: list[int]) -> set[tuple[int, int]]:
    pairs = set()
    for value in set(hashes):
        bucket = sorted(node for other, node in zip(hashes, nodes, strict=True) if other == value)
        pairs.update((bucket[0], node) for node in bucket[1:])
        pairs.update(pairwise(bucket))
    return pairs


def test_every_bucket_is_a_star_and_a_chain(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    hashes = draw.integers(0, 400, (3, 600)).astype(np.uint64) << np.uint64(55)
    hashes[2, 100:400] = 2**64 - 1  # one large bucket
    nodes = draw.permutation(600)  # quality is turned round, so that it decides the node
    zero = np.zeros(600, np.uint64)
    shards = [Shard(tmp_path, 0, 0, 250), Shard(tmp_path, 0, 250, 600)]
    for number, shard in enumerate(shards):
        some = slice(shard.start, shard.stop)
        keys = {
            "key0": np.arange(600, dtype=np.uint64)[some],
            "key1": zero[some],
            "digits": zero[some],
        }
        questions = {"asked": zero[some] > 0, "question0": zero[some], "question1": zero[some]}
        rows = {"id": [str(doc) for doc in range(shard.start, shard.stop)], "quality": -nodes[some]}
        pq.write_table(pa.table(rows | keys | questions), tmp_path / f"keys-{number}.parquet")
        columns = {str(band): hashes[band, some] for band in range(3)}
        places = np.arange(shard.stop - shard.start)
        pq.write_table(pa.table({"place": places, **columns}), tmp_path / f"bands-{number}.parquet")
    with closing(DocumentTable(shards, tmp_path, 2_000_000_000)) as table:
        table.rank(sorted(tmp_path.glob("keys-*")))
        table.drop_exact()
        table.add_signed(shards[:1], [tmp_path / "bands-0.parquet"])
        assert table.unsigned().tolist() == list(range(250, 600))
        table.add_signed(shards[1:], [tmp_path / "bands-1.parquet"])
        assert not len(table.unsigned())
        found = [tuple(pair) for pair in table.candidates(3).tolist()]
    assert found == sorted(
        set().union(*(star_and_chain(band.tolist(), nodes.tolist()) for band in hashes))
    )


PROBLEM = (
    "A farmer has 35 cows and buys 15 more of them in the spring, then sells a fifth of the herd to the neighbour who "
    "lives behind the hill. How many cows does the farmer have in the end?"
)
INSTRUCTION = (
    "Compute the value that is asked for below, show each step of the work in a line of its own with a reason beside "
    "each line, and give the result as one fraction without a decimal point, or as a root where no fraction exists: "
)


def kept(folder: Path, questions: list[str]) -> int:
    write(folder / "in", table((question, "It is so.") for question in questions))
    deduplicate([folder / "in"], folder / "out", DedupSettings())
    return len(read(folder / "out"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "labelled",
    [
        f"{PROBLEM} (2019 AMC 8 Problems, Question #18)",
        f"Exercise 12.3: {PROBLEM}",
        f"18. {PROBLEM} (AMC 8, 2019)",
    ],
)
def test_a_label_keeps_no_duplicate_apart(tmp_path: Path, labelled: str) -> None:
    assert kept(tmp_path, [PROBLEM, labelled]) == 1


@pytest.mark.parametrize(
    "question",
    [
        "3 (2 + 4) is 18.",
        "12.5 km are left.",
        "Of 20 (2019x + 4) pens",
        "See f(2019) and (in 2019).",
    ],
)
def test_numbers_of_the_problem_are_no_label(question: str) -> None:
    assert without_labels(pa.array([question])).to_pylist() == [question]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("one", "other", "different"),
    [
        ("\\sin(x) at 3", "\\cos(x) at 3", 2),
        ("2sin(x) at 3", "2cos(x) at 3", 2),
        ("f(f(x)) at 3", "f(f(f(x))) at 3", 2),
        ("sin(x) at 3", "Sin(x) at the point 3", 1),
        ("the area at 3", "the perimeter at 3", 2),
        ("the greatest area at 3", "the largest area at 3", 1),
    ],
)
def test_other_functions_under_one_long_instruction_are_other_problems(
    tmp_path: Path, one: str, other: str, different: int
) -> None:
    assert kept(tmp_path, [INSTRUCTION + one, INSTRUCTION + other]) == different


def flat(sets: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    values = np.array([value for members in sets for value in members], np.uint64)
    return values, np.concatenate([[0], np.cumsum([len(members) for members in sets])]).astype(
        np.int64
    )


def sketch(members: list[int], count: int, seed: int) -> MinHash:
    found = MinHash(num_perm=count, seed=seed, scheme="affine32", hashfunc=int)
    found.update_batch(short_ids(np.array(members, np.uint64)).tolist())
    return found


@pytest.mark.slow
@settings(max_examples=60)
@given(
    st.lists(st.lists(st.integers(0, 2**64 - 1), max_size=12), max_size=8),
    st.sampled_from([1, 16, 128]),
)
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


@pytest.mark.parametrize(
    ("threshold", "expected"), [(0.7, (25, 5)), (0.8, (18, 7)), (1.0, (1, 128))]
)
def test_bands_detect_at_the_threshold(threshold: float, expected: tuple[int, int]) -> None:
    assert choose_bands(threshold, 128) == expected
    assert detection(threshold, *expected) >= 0.95


def test_documents_share_the_hash_of_a_band_where_its_values_are_equal() -> None:
    values = np.random.default_rng(1).integers(0, 3, (200, 7), np.uint32)
    hashes = band_hashes(values, 2, 3)
    assert hashes.shape == (2, 200)
    for band, found in enumerate(hashes.tolist()):
        own = [tuple(row) for row in values[:, 3 * band : 3 * band + 3].tolist()]
        assert len(set(found)) == len(set(own)) == len(set(zip(own, found, strict=True))) < 200


def source(folder: Path, name: str, questions: list[str]) -> Path:
    rows = [table([(question, "It is so.")], name, i) for i, question in enumerate(questions)]
    return write(folder / name, *rows, shard_bytes=2_000)


def problem(draw: random.Random, number: int) -> str:
    return " ".join(draw.choices(WORDS, k=40)) + f" {number}?"


def edited(draw: random.Random, text: str) -> str:
    words = text.split()
    words[draw.randrange(30)] = "other"
    return " ".join(words)


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings", [DedupSettings(), DedupSettings(guards=(), responses_per_question=1)]
)
def test_signing_source_by_source_changes_nothing(tmp_path: Path, settings: DedupSettings) -> None:
    draw = random.Random(0)
    problems = [problem(draw, i) for i in range(60)]
    # Copies within the first source, copies in the other source only, and texts shorter than an
    # n-gram.
    first = source(
        tmp_path,
        "first",
        [*problems, *(edited(draw, text) for text in problems[:20]), "a b?", "a  B?", "a c?"],
    )
    second = source(
        tmp_path,
        "second",
        [edited(draw, text) for text in problems[10:40]] + problems[50:] + ["a b?"],
    )
    signed = []
    for folder in (first, second):
        signed.append(tmp_path / "signed" / folder.name)
        sign_source(folder, signed[-1], settings.signing)
    alone, before = tmp_path / "alone", tmp_path / "before"
    results = deduplicate([first, second], alone, settings)
    assert deduplicate([first, second], before, settings, signed=signed) == results
    for kind in ("documents", "dropped"):
        assert read(before, kind) == read(alone, kind)
    assert results["verified"] >= 40
    audits = [pq.read_table(output / "near_duplicates.parquet") for output in (alone, before)]
    assert audits[0].equals(audits[1])


def test_only_documents_whose_digits_stand_in_another_text_are_signed(tmp_path: Path) -> None:
    draw = random.Random(1)
    one, two, three = (problem(draw, n) for n in (7, 7, 8))
    folder = source(tmp_path, "s", [one, two, three, three.upper()])
    found = sign_source(folder, tmp_path / "signed", DedupSettings().signing)
    assert found == {"documents": 4, "signed": 2}
    places = [
        pq.read_table(path)["place"].to_pylist()
        for path in sorted((tmp_path / "signed" / "bands").glob("*"))
    ]
    assert sum(map(len, places)) == 2
    assert sign_source(folder, tmp_path / "exact", DedupSettings(near=False).signing) == {
        "documents": 4,
        "signed": 0,
    }


def test_too_little_memory_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signing_stage, "LEAST_MEMORY", 1000)
    documents = source(tmp_path, "first", [problem(random.Random(0), i % 5) for i in range(60)])
    with pytest.raises(InputError, match=r"signed: too little memory .*raise data.memory"):
        sign_source(documents, tmp_path / "signed", DedupSettings().signing, memory=1000)
