"""Say how many there are of something, for messages."""

from __future__ import annotations


def counted(count: int, noun: str, plural: str = "") -> str:
    """Put a count before its noun: `1 seed`, `3 seeds`; `plural` is that of `study` and the like.

    >>> counted(1, "document"), counted(2_000, "document"), counted(2, "study", "studies")
    ('1 document', '2,000 documents', '2 studies')
    """
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"
