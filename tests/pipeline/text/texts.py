"""Texts that are hard to split, and their word ids block by block."""

import pyarrow as pa
from hypothesis import strategies as st

from pipeline.text.words import text_column, word_blocks

PIECES = ["a", "bc", "Def", "lengthyword", "0", "12", "345", "000", ".", ",", "-", "--", "*", "**", "+", "=", "<", "/"]
PIECES += ["{", "}", "}{", "{,}", "\\,", ",\\!", "\\", "\\frac", "\\times ", "\\left(", " ", "\n", "$", "'", "^", "%"]
PIECES += [*"éÉαΣ×−–²½’“ﬁ٣θ∠\u0430\u044b\u200b\u00a0\x00\U0001f600", "e\u0301", "漢字"]
PIECES += ["&nbsp;", "&#39;", "&", "\\textbackslash ", "\\log_8", "\\frac1", "\\dfrac3", "2"]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=30).map("".join) | st.text(max_size=40)


def word_ids(texts: list[str], block_bytes: int = 1 << 18) -> list[list[int]]:
    found: list[list[int]] = []
    for rows, words in word_blocks(text_column(pa.array(texts, pa.string())), block_bytes):
        assert rows.start == len(found)
        found += [words.ids[words.offsets[d] : words.offsets[d + 1]].tolist() for d in range(rows.stop - rows.start)]
    return found
