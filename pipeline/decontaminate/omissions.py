r"""Leave out of a text what a copy often lacks.

That is figures, calculator annotations, and closing sentences on the format of the answer:

>>> without_figures("Find AB. [asy] draw((0,0)--(4,3)); [/asy] It is 3+4=<<3+4=7>>7.\n#### 7")
'Find AB.   It is 3+4= 7.\n '
>>> without_closing(["What is 2/7 in decimals? Round your answer to the nearest tenth."])
['What is 2/7 in decimals? ']
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from dreamer_study.pipeline.text.instructions import ASKS, is_instruction, sentences

FIGURE = (
    r"(?s)\[asy\].{0,9000}?\[/asy\]"
    r"|<(asy|svg)\b[^>]{0,999}>.{0,9000}?</(asy|svg)>"
    r"|<img\b[^>]{0,9000}>"
    r"|!\[[^\]\n]{0,500}\]\([^)\s]{0,9000}\)"
    r"|\\begin\{(asy|tikzpicture|picture)\}.{0,9000}?\\end\{(asy|tikzpicture|picture)\}"
    r"|\\includegraphics(\[[^\]]*\])?\{[^}]*\}"
    r"|<<[^<>\n]{1,200}=[^<>\n]{1,80}>>"
    r"|####[ \t]*[^\s\n]{1,30}[ \t]*(?=\n|$)"
)
_MARKS = r"\[asy\]|<asy|<svg|<img|!\[|\\begin\{(asy|tikz|pict)|\\includegraphics|<<|####"
_FIGURE = re.compile(FIGURE)
_TELLS = re.compile(
    r"\s*(express|write|list|name|give|state|tell|show that|simplify|factor|expand)\b|\$|\\\(|=",
    re.IGNORECASE,
)
_DIGITS = re.compile(r"\d+")
_FREQUENT = 5  # different texts with one closing sentence: a phrase of the set


def without_figures(text: str) -> str:
    """Replace figures, annotations `<<3+4=7>>` and the line `#### 7` by blanks.

    Figures are those in Asymptote, TikZ or SVG, or as a link.
    """
    return _FIGURE.sub(" ", text)


def figures(text: str) -> str:
    """Return all that `without_figures` leaves out."""
    return "".join(figure[0] for figure in _FIGURE.finditer(text))


def column_without_figures(texts: pa.Array) -> pa.Array:
    """Apply `without_figures` to a column, in which few texts have any."""
    marked = pc.fill_null(pc.match_substring_regex(texts, _MARKS), False)
    if not pc.any(marked).as_py():
        return texts
    plain = [without_figures(text) for text in pc.filter(texts, marked).to_pylist()]
    return pc.replace_with_mask(texts, marked, pa.array(plain, texts.type))


def without_closing(texts: Sequence[str]) -> list[str]:
    """Remove closing sentences on the form of the answer, or that close several of these texts.

    A sentence that asks something stays, and the first one always does.
    """
    split = {text: sentences(text) for text in texts}
    closing = Counter(_pattern(parts[-1]) for parts in split.values() if len(parts) > 1)
    shortened = {}
    for text, parts in split.items():
        stays = len(parts)
        while stays > 1 and _is_format(parts[stays - 1], closing):
            stays -= 1
        shortened[text] = "".join(parts[:stays])
    return [shortened[text] for text in texts]


def _is_format(sentence: str, closing: Counter[str]) -> bool:
    frequent = closing[_pattern(sentence)] >= _FREQUENT and not _TELLS.search(sentence)
    return is_instruction(sentence) or (frequent and not ASKS.search(sentence))


def _pattern(sentence: str) -> str:
    return _DIGITS.sub("0", sentence.strip())
