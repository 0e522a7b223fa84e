"""Open files of text, also compressed ones, and read them by lines of a limited length."""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from dreamer_study.pipeline.errors import InputError

LONGEST = 64 * 2**20  # bytes of one row
_READ = 2**18  # bytes that are decompressed at once
COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}


class TextFile:
    """A stream of the bytes of a file, decompressed.

    Raises InputError for gzip without the ending, and for UTF-16.
    """

    def __init__(self, path: Path, longest: int) -> None:
        self.path = path
        self.longest = longest
        self._size = max(path.stat().st_size, 1)
        with self._with_advice(), self._open() as stream:
            head = stream.read(4096)
        if head.startswith(b"\x1f\x8b"):
            raise InputError(f"{path}: compressed with gzip; its name must end with .gz")
        if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or b"\0" in head[:4]:
            raise InputError(f"{path}: not UTF-8 text; convert it first (iconv -f UTF-16 -t UTF-8)")
        self.head = head.removeprefix(codecs.BOM_UTF8).lstrip()
        self._stream = self._open()
        self._text = io.TextIOWrapper(self._stream, "utf-8-sig", "replace")  # type: ignore[type-var]

    @property
    def done(self) -> float:
        """The fraction of the file that has been read."""
        return 1.0 if self._raw.closed else min(self._raw.tell() / self._size, 1.0)

    def lines(self) -> Iterator[bytes]:
        """Yield the lines with their ends.

        Raises InputError for a line longer than `longest` bytes.
        """
        with self._with_advice():
            number = 0
            while line := self._stream.readline(self.longest + 1):
                number += 1
                if len(line) > self.longest:
                    raise self.too_long(f"line {number}")
                yield line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
        self._raw.close()

    def read(self, size: int) -> str:
        """Read at most `size` characters."""
        with self._with_advice():
            return self._text.read(size)

    def too_long(self, what: str) -> InputError:
        """Return the error for a row above the limit."""
        limit = f"{self.longest:,} bytes"
        if self.longest >= 2**20:
            limit = f"{self.longest / 2**20:,.0f} MB"
        return InputError(
            f"{self.path}: {what} is longer than {limit}; raise the source's `longest`, if it is"
            " right"
        )

    def _open(self) -> BinaryIO:
        self._raw: BinaryIO = self.path.open("rb")
        compression = COMPRESSIONS.get(self.path.suffix)
        if compression is None:
            return self._raw
        stream = pa.CompressedInputStream(self._raw, compression)
        return io.BufferedReader(stream, _READ)  # type: ignore[arg-type]

    @contextmanager
    def _with_advice(self) -> Iterator[None]:
        """Raise InputError where a compressed file ends early; Arrow's error is no more exact."""
        try:
            yield
        except OSError as error:
            if self.path.suffix not in COMPRESSIONS:
                raise
            raise InputError(
                f"{self.path}: the compressed file is cut off or damaged; fetch it again"
            ) from error
