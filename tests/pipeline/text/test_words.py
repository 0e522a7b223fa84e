"""Words of columns: equal to the specification, whatever the blocks, slices and chunks."""

import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pipeline.text.ngrams import word_id
from pipeline.text.words import text_column, word_blocks
from tests.pipeline.text.specification import ngram_ids, words_of
from tests.pipeline.text.texts import TEXTS, word_ids


def short_grams(texts: list[str], n: int, block_bytes: int) -> list[list[int]]:
    found: list[list[int]] = []
    for rows, words in word_blocks(text_column(pa.array(texts, pa.string())), block_bytes):
        ids, offsets = words.ngrams(n)
        found += [ids[offsets[d] : offsets[d + 1]].tolist() for d in range(rows.stop - rows.start)]
    return found


@settings(max_examples=150)
@given(st.lists(TEXTS, max_size=6), st.sampled_from([1, 40, 1 << 18]))
@example(["3.1,000", "-1,000", "12,345{,}678\\,901,", "}1,000{", "9,999999"], 1)
@example(["/}{", "/}{/ }{ //}{"], 1)
@example(["ends with letters", "begins too", "5", "6", ",", "000"], 1 << 18)
def test_fast_path_equals_the_specification(texts: list[str], block_bytes: int) -> None:
    texts = [text.encode(errors="replace").decode() for text in texts]
    assert word_ids(texts, block_bytes) == [[word_id(word) for word in words_of(text)] for text in texts]
    assert short_grams(texts, 3, block_bytes) == [ngram_ids(text, 3) for text in texts]


def test_rows_keep_apart_and_columns_join() -> None:
    assert word_ids(["one two", "three"]) == [*word_ids(["one two"]), *word_ids(["three"])]
    column = text_column(pa.array(["a b", None]), pa.array(["c", "d é"]))
    assert column.to_pylist() == ["a b\nc\n", "\nd é\n"]
    assert word_ids(column.to_pylist()) == [[word_id(w) for w in "abc"], [word_id("d"), word_id("é")]]


def test_sliced_and_chunked_columns() -> None:
    texts = pa.chunked_array([["zero", "one é"], ["two"]])
    assert text_column(texts.slice(1)).to_pylist() == ["one é\n", "two\n"]
    assert [rows for rows, _ in word_blocks(text_column(texts).slice(1))] == [slice(0, 2)]
