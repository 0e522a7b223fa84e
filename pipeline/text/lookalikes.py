"""Read Cyrillic and Greek letters that look like Latin ones as Latin where the word, or the whole text, is Latin.

>>> as_latin("J\u0430net sаid \u0430 word"), as_latin("он сам"), as_latin("αx = Δy")
('Janet said a word', 'он сам', 'αx = Δy')
"""

from __future__ import annotations

import re

_LETTERS = {
    **dict(zip("аеорсхуіјѕһԛԝ", "aeopcxyijshqw", strict=True)),
    **dict(zip("АВЕКМНОРСТХУІЈЅԌ", "ABEKMHOPCTXYIJSG", strict=True)),
    **dict(zip("οΑΒΕΖΗΙΚΜΝΟΡΤΥΧ", "oABEZHIKMNOPTYX", strict=True)),
}
_TABLE = str.maketrans(_LETTERS)
_LETTER = re.compile(f"[{''.join(_LETTERS)}]")
_WORD = re.compile(r"[^\W\d_]+")
_CYRILLIC = re.compile("[\u0400-\u052f]")


def as_latin(text: str) -> str:
    """Replace look-alike letters in words that are otherwise Latin; all of them where no other Cyrillic letter is."""
    if not _LETTER.search(text):
        return text
    if _LETTERS.keys() >= set(_CYRILLIC.findall(text)):
        text = _CYRILLIC.sub(lambda letter: _LETTERS[letter[0]], text)
    return _WORD.sub(lambda word: _latin_word(word[0]), text)


def _latin_word(word: str) -> str:
    read = word if word.isascii() else word.translate(_TABLE)
    return read if read.isascii() and any(letter.isascii() for letter in word) else word
