"""Small files that unpack to much are read in bounded memory, or refused with a line."""

from __future__ import annotations

import gzip
import re
import resource
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.sources.files import arrow_rows, json_rows, table_rows, unpacking
from dreamer_study.pipeline.sources.files.readers import open_rows
from dreamer_study.pipeline.storage.memory import bounded_memory, share_of_memory

TEXT = "x y " * 125_000
ROWS = 8192  # 4 GB of that text
MOST_MEMORY = 3 * 2**29  # bytes of Arrow's; without bounds they are those of all rows


def _one_text(rows: int = ROWS, text: str = TEXT) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array([text]))


def _lists() -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(range(ROWS + 1), pa.int32()), _one_text())


def _short_rows_first() -> pa.Array:
    places = [0] * 2 * ROWS + [1] * ROWS
    return pa.DictionaryArray.from_arrays(pa.array(places, pa.int32()), pa.array(["a", TEXT]))


def _views() -> pa.Array:
    text = TEXT.encode()
    view = struct.pack("<i4sii", len(text), text[:4], 0, 0)
    buffers = [None, pa.py_buffer(view * ROWS), pa.py_buffer(text)]
    return pa.Array.from_buffers(pa.string_view(), ROWS, buffers)


def _runs() -> pa.Array:
    return pa.RunEndEncodedArray.from_arrays(pa.array([ROWS], pa.int32()), pa.array([TEXT]))


def _write_parquet(path: Path, column: pa.Array, *, kind_kept: bool = False) -> Path:
    table = pa.table({"text": column})
    pq.write_table(table, path, compression="zstd", store_schema=kind_kept)
    return path


def _write_arrow(path: Path, column: pa.Array, **options: str) -> Path:
    batch = pa.record_batch([column], names=["text"])
    written = pa.ipc.IpcWriteOptions(**options)
    with (
        pa.OSFile(str(path), "wb") as file,
        pa.ipc.new_file(file, batch.schema, options=written) as out,
    ):
        out.write_batch(batch)
    return path


def _read(path: Path, longest: int = 2**26) -> int:
    reader = open_rows(path, longest=longest)
    return sum(len(block.table) for block in reader.blocks(reader.schema))


@pytest.mark.slow
@pytest.mark.parametrize("column", [_one_text, _lists, _short_rows_first])
def test_rows_of_one_long_text_are_read_in_bounded_memory(
    column: Callable[[], pa.Array], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unpacking, "ALWAYS_UNPACKED", 2**26)
    path = _write_parquet(tmp_path / "a.parquet", column())
    assert path.stat().st_size < 20_000
    with pytest.raises(InputError, match=r"a.parquet: its [\d,]+ bytes unpack to more than"):
        _read(path)
    assert pa.system_memory_pool().max_memory() < MOST_MEMORY


@pytest.mark.slow
@pytest.mark.parametrize("column", [_one_text, _views, _runs])
def test_values_that_rows_share_are_written_out_in_bounded_memory(
    column: Callable[[], pa.Array], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unpacking, "ALWAYS_UNPACKED", 2**26)
    monkeypatch.setattr(unpacking, "MOST_TIMES", 2)
    path = _write_arrow(tmp_path / "a.arrow", column())
    with pytest.raises(InputError, match="unpack to more than"):
        _read(path)
    assert pa.system_memory_pool().max_memory() < MOST_MEMORY


READING = """
import sys
from pathlib import Path
from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.sources.files.readers import open_rows
from dreamer_study.pipeline.storage.memory import share_of_memory
def most_memory():  # of this program: getrusage counts that of the test's process too
    with open("/proc/self/status") as status:
        return int(next(line for line in status if line.startswith("VmHWM:")).split()[1])
begun = most_memory()
reader = open_rows(Path(sys.argv[1]), longest=2**20)
with share_of_memory(int(sys.argv[2])):
    for block in reader.blocks(reader.schema, 1500):
        pass
print(most_memory() - begun)
"""


@pytest.mark.slow
def test_the_memory_of_reading_is_that_of_the_study(tmp_path: Path) -> None:
    path = _write_parquet(tmp_path / "a.parquet", _one_text())
    command = [sys.executable, "-c", READING, str(path), str(4 * 10**8)]
    taken = int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert taken * 1024 < 4 * 10**8


@pytest.mark.slow
def test_rows_for_which_there_is_too_little_memory_name_the_setting(tmp_path: Path) -> None:
    path = _write_parquet(tmp_path / "a.parquet", pa.array(["ab" * 2 * 10**7]))
    # In a new process: what earlier tests gave back meanwhile would be room that the limit sees.
    command = [sys.executable, "-c", READING, str(path), str(10**8)]
    ended = subprocess.run(command, check=False, capture_output=True, text=True)
    said = r"row 0 is longer .*, or takes more than 24 MB .* raise data.memory"
    assert re.search(said, ended.stderr)
    lines = tmp_path / "a.jsonl"
    lines.write_text('{"text": [' + "1," * 200_000 + "1]}\n")
    assert _read(lines) == 1
    with share_of_memory(10**8), pytest.raises(InputError, match=r"195,312 values.*data\.memory"):
        _read(lines)


def test_a_compressed_batch_that_takes_too_much_memory_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def none_left(longest: int) -> Iterator[None]:
        raise MemoryError
        yield

    path = _write_arrow(tmp_path / "a.arrow", pa.array([TEXT] * 10), compression="zstd")
    monkeypatch.setattr(arrow_rows, "bounded_unpacking", none_left)
    with pytest.raises(
        InputError, match=r"one batch of its rows takes more than 512 MB; raise data.memory"
    ):
        _read(path)


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_a_row_of_a_table_is_at_most_as_long_as_the_source_says(
    ending: str, tmp_path: Path
) -> None:
    write = _write_parquet if ending == "parquet" else _write_arrow
    texts = ["ab", "b" * 5000, "c" * 2000]
    path = write(tmp_path / f"a.{ending}", pa.array(texts))
    assert _read(path, 6000) == 3
    with pytest.raises(InputError, match="row 1 is longer than 4,000 bytes; raise the source's"):
        _read(path, 4000)


@pytest.mark.slow
def test_a_row_of_millions_of_elements_is_refused(tmp_path: Path) -> None:
    elements = pa.nulls(10_000_000, pa.int32())
    lists = pa.ListArray.from_arrays(pa.array([0, len(elements)], pa.int32()), elements)
    path = _write_parquet(tmp_path / "a.parquet", lists)
    with pytest.raises(InputError, match="row 0 is longer than 8 MB"):
        _read(path, 2**23)


def test_compressed_lines_without_end_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unpacking, "ALWAYS_UNPACKED", 2**22)
    blank = tmp_path / "blank.jsonl.gz"
    blank.write_bytes(gzip.compress(b"\n" * 2**20))
    array = tmp_path / "array.json.gz"
    array.write_bytes(gzip.compress(b"[" + b"{}," * 2**18 + b"{}]"))
    table = tmp_path / "table.csv.gz"
    table.write_bytes(gzip.compress(b"text\n" + b"word\n" * 2**18))
    for path in (blank, array, table):
        with pytest.raises(InputError, match="unpack to more than 4,194,304"):
            _read(path)


def test_records_of_millions_of_values_or_names_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_rows, "MOST_VALUES", 1000)
    monkeypatch.setattr(json_rows, "MOST_FIELDS", 100)
    monkeypatch.setattr(table_rows, "MOST_COLUMNS", 100)
    record = '{"text": [' + "[]," * 100_000 + "[]]}"
    names = ", ".join(f'"{number}": 1' for number in range(101))
    contents = {
        "lines.jsonl": (record + "\n", "holds more than 1,000 values"),
        "array.json": (f"[{record}]", "holds more than 1,000 values"),
        "names.jsonl": ("{" + names + "}\n", "more than 100 different fields"),
        "names.csv": ("a," * 100 + "b\n", "its first line has 101 fields"),
    }
    for name, (content, message) in contents.items():
        path = tmp_path / name
        path.write_text(content)
        with pytest.raises(InputError, match=message):
            _read(path)


def test_an_array_whose_parts_do_not_fit_is_damaged(tmp_path: Path) -> None:
    offsets = pa.py_buffer(struct.pack("<iii", 0, 2_000_000_000, 5))
    column = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"hello")])
    path = _write_arrow(tmp_path / "a.arrow", column)
    with pytest.raises(InputError, match="cut off or damaged"):
        _read(path)


@pytest.mark.slow
def test_a_limit_of_memory_ends_with_its_block() -> None:
    before = resource.getrlimit(resource.RLIMIT_DATA)
    with pytest.raises(MemoryError), bounded_memory(2**24):
        bytearray(2**30)
    assert resource.getrlimit(resource.RLIMIT_DATA) == before
    assert len(bytearray(2**28)) == 2**28
