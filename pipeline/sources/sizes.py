"""Sizes of the sources: published before a source is fetched, measured where its files are at hand.

Published numbers are from the data sets' cards, file listings and reports of users; None where
there is none.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dreamer_study.pipeline.sources.files.readers import open_rows
from dreamer_study.pipeline.sources.files.text_files import COMPRESSIONS
from dreamer_study.pipeline.sources.source import Source

COMPRESSED = (".parquet", *COMPRESSIONS)
# Of text in public Parquet and gzip files: 18.5 GB in 8.3 GB (OpenThoughts2), 5.0 in 2.1
# (DeepMath).
COMPRESSION = 2.2
SOLUTION_FRACTION = 0.1  # of a response with a trace: 1,450 of 14,367 characters (DeepMath)


@dataclass(frozen=True)
class Size:
    """Documents, bytes to fetch, and bytes of the texts that are read; None where unknown."""

    documents: int | None
    download: float | None
    text: float | None


UNKNOWN = Size(None, None, None)

SIZES: dict[str, Size] = {
    "math": Size(7_500, None, 6.9e6),
    "curatedthoughts-openr1": Size(None, 2.0e9, 2.0e9 * COMPRESSION),
    "curatedthoughts-openthoughts": Size(66_100, None, None),
    "orca-math": Size(200_035, None, 200_035 * 1_117),  # 239 and 878 characters on average
    "mathinstruct": Size(262_039, 212e6, 200e6),
    "gsm8k": Size(7_473, 4.7e6, 4.0e6),
    "amps-khan": Size(103_059, 78.2e6, 78.2e6),
    "openthoughts2": Size(1_143_205, 8.31e9, 1_143_205 * 16_200),
    # the half of the 2.5 GB that is not `messages`
    "numinamath-cot": Size(859_494, 1.23e9, 1.25e9),
    "natural-reasoning": Size(1_145_824, 4.2e9, 4.2e9),
    "openmathinstruct-2": Size(13_972_791, 12.8e9, 15.6e9),  # of 20.2 GB for all four splits
    "openmathreasoning": Size(3_201_061, 71.6e9 / COMPRESSION, 71.6e9),
    "deepmath-103k": Size(309_330, 2.14e9, 4.96e9),  # three responses to each of 103,110 questions
    "math-instruct": Size(114_636_942, 9.93e9, 15.58e9),
    "nemotron-sft-math": UNKNOWN,
    "maths-college": Size(969_980, 5.0e9, 5.0e9),
}


def size_of(source: Source, files: list[Path]) -> Size:
    """Measure a source's files, which need not be fetched; without files, look up what is known."""
    if not files:
        return SIZES.get(source.name, UNKNOWN)
    text: float = 0
    for path in files:
        factor = COMPRESSION if path.suffix.lower() in COMPRESSED else 1
        text += path.stat().st_size * factor
    documents = None
    if all(path.suffix == ".parquet" for path in files):
        documents = sum(open_rows(path).count() for path in files)
    return Size(documents, 0, text)


def stripped_text(source: Source, text: float) -> float:
    """Estimate the bytes of a source's text that are left without its reasoning traces."""
    if source.trace in ("paired", "thought", "closing"):
        return text * SOLUTION_FRACTION
    return text
