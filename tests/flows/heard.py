"""A listener for tests, which keeps every report."""

from __future__ import annotations


class Heard:
    """Keeps the key, the fraction and the words of every report."""

    def __init__(self) -> None:
        self.reports: list[tuple[str, float, str]] = []

    def update(self, key: str, fraction: float, words: str) -> None:
        self.reports.append((key, fraction, words))

    @property
    def words(self) -> list[str]:
        return [words for *_, words in self.reports]
