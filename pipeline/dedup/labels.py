"""Leave out of comparisons what only labels a problem: its number in a book, and the contest that it is from.

>>> texts = ["Problem 7. Find 3 + 4.", "12) Find 3 + 4. (2019 AMC 8 Problems, Question #18)", "Find 3 + 4 (in 2019)."]
>>> without_labels(pa.array(texts)).to_pylist()
['Find 3 + 4.', 'Find 3 + 4. ', 'Find 3 + 4 (in 2019).']
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

_NUMBER = r"^\s*(?:(?:Problem|Exercise|Question|Example)\s+#?\d+(?:\.\d+)*[.:)]?|\d{1,3}(?:\.\d+)*[.)])\s+"
_CONTEST = r"\((?:(?:19|20)\d\d,?\s+[A-Z][A-Za-z]|[A-Z][A-Za-z]+[\w .,'-]{0,40}\b(?:19|20)\d\d\b)[^()\n]{0,80}\)"


def without_labels(questions: pa.Array) -> pa.Array:
    """Remove a number at the beginning and the contest in parentheses from each question."""
    for label in (_NUMBER, _CONTEST):
        questions = pc.replace_substring_regex(questions, pattern=label, replacement="")
    return questions
