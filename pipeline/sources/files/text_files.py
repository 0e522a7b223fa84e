"""Open files of text, also compressed ones, and read them by lines of a limited length."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO

import pyarrow as pa

from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.sources.files.unpacking import Unpacked, too_long

LONGEST = 64 * 2**20  # bytes of one row
_READ = 2**18  # bytes that are decompressed at once
_COUNTED = 256  # lines at once
COMPRESSIONS = (".gz", ".zst", ".xz", ".bz2", ".zip")
_ZIP = b"PK\x03\x04"
# What opens a compressed file, by its first bytes: names are wrong more often.
_OPENERS: dict[bytes, Callable[[BinaryIO], Any]] = {
    b"\x1f\x8b": gzip.open,
    b"\x28\xb5\x2f\xfd": lambda raw: pa.CompressedInputStream(raw, "zstd"),
    b"\xfd7zXZ\x00": lzma.open,
    b"BZh": bz2.open,
}
# Files of a .zip that are no data: of a computer, or about the data.
_NO_DATA = re.compile(r"__MACOSX/|\.|(?:.*/)?(?:\.|README|LICEN[CS]E|[^/]*\.md$)", re.IGNORECASE)
_NAMED = 3  # files of a .zip in a message
_DAMAGES = (OSError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile)


def kind_of_file(name: str) -> str:
    """Return the ending of a file's name without those of compression: "json" of a.JSON.gz."""
    name = name.lower()
    while name.endswith(COMPRESSIONS):
        name = name.rpartition(".")[0]
    return name.rpartition(".")[2]


class TextFile:
    """A stream of the bytes of a file, decompressed.

    Its `name` is that of the file in a .zip. Raises InputError for a compressed file without its
    end, for a .zip that holds several files, and for UTF-16.
    """

    def __init__(self, path: Path, longest: int) -> None:
        self.path = path
        self.longest = longest
        self.name = path.name
        self._size = max(path.stat().st_size, 1)
        self.unpacked = Unpacked(path)
        with path.open("rb") as raw:
            self._beginning = raw.read(8)
        with self._with_advice(), self._open() as stream:
            head = stream.read(4096)
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
        """Yield the lines with their ends, without byte order marks, which `cat` may leave inside.

        Raises InputError for a line longer than `longest` bytes, and for a file that unpacks
        without end.
        """
        with self._with_advice():
            number = 0
            taken = 0  # bytes that are not counted yet
            while line := self._stream.readline(self.longest + 1):
                number += 1
                if len(line) > self.longest:
                    raise self.too_long(f"line {number}")
                taken += len(line)
                if not number % _COUNTED:
                    self.unpacked.add(taken, _COUNTED)
                    taken = 0
                yield line.removeprefix(codecs.BOM_UTF8)
        self._raw.close()

    def read(self, size: int) -> str:
        """Read at most `size` characters. Raises InputError for a file that unpacks without end."""
        with self._with_advice():
            text = self._text.read(size)
        self.unpacked.add(len(text), 0)
        return text

    def too_long(self, what: str) -> InputError:
        """Return the error for a row above the limit."""
        return too_long(self.path, what, self.longest)

    def _open(self) -> BinaryIO:
        self._raw: BinaryIO = self.path.open("rb")
        if self._beginning.startswith(_ZIP):
            return _buffered(self._only_member())
        for first_bytes, opener in _OPENERS.items():
            if self._beginning.startswith(first_bytes):
                return _buffered(opener(self._raw))
        return self._raw

    def _only_member(self) -> IO[bytes]:
        """Open the one file of data of a .zip."""
        archive = zipfile.ZipFile(self._raw)
        names = [
            member.filename
            for member in archive.infolist()
            if not member.is_dir() and not _NO_DATA.match(member.filename)
        ]
        if not names:
            raise InputError(f"{self.path}: it holds no file of data")
        if len(names) > 1:
            named = ", ".join(names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")
            raise InputError(
                f"{self.path}: it holds {len(names)} files ({named}), where one is read; unpack"
                " it, and name its files as the source's `files`"
            )
        self.name = names[0]
        return archive.open(names[0])

    @contextmanager
    def _with_advice(self) -> Iterator[None]:
        """Raise InputError where a compressed file ends early."""
        try:
            yield
        except InputError:
            raise
        except _DAMAGES as error:
            if not self._beginning.startswith((_ZIP, *_OPENERS)):
                raise
            raise InputError(
                f"{self.path}: the compressed file is cut off or damaged; fetch it again"
            ) from error


def _buffered(stream: Any) -> BinaryIO:
    return io.BufferedReader(stream, _READ)  # type: ignore[return-value]
