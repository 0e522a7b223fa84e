"""Values that rows of Arrow share are written out as they are, and in the memory of the study."""

from __future__ import annotations

import json
import re
import struct
import subprocess
import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.sources.files.plain_values import plain, plain_type, valid
from dreamer_study.pipeline.sources.files.readers import open_rows
from dreamer_study.pipeline.sources.read import read_source
from dreamer_study.pipeline.sources.source import Source

TEXTS = pa.array(["a", None, "bé", "a", ""])
IS_NULL = pa.array([False, False, True, False, False])
OFFSETS = [0, 2, 2, None, 4, 5]
PLACES = [3, 0, 0, 1, 0]
SIZES = [2, 0, 5, 1, 5]

Make = Callable[[pa.Array], pa.Array]


def _views(make: Any, kind: pa.DataType) -> Make:
    places, sizes = pa.array(PLACES, kind), pa.array(SIZES, kind)
    return lambda array: make.from_arrays(places, sizes, array, mask=IS_NULL)


def _map(values: pa.Array) -> pa.Array:
    return pa.MapArray.from_arrays(pa.array(OFFSETS, pa.int32()), _encoded(values), values)


def _encoded(values: pa.Array) -> pa.Array:
    return pa.array([f"key {place}" for place in range(len(values))]).dictionary_encode()


LEAVES = {
    "string": TEXTS,
    "large_string": TEXTS.cast(pa.large_string()),
    "string_view": TEXTS.cast(pa.string_view()),
    "binary_view": TEXTS.cast(pa.binary_view()),
    "dictionary": TEXTS.dictionary_encode(),
    "runs": pc.run_end_encode(TEXTS),
    "json": TEXTS.cast(pa.json_(pa.string_view())),
    "nulls": pa.nulls(5),
    "numbers": pa.array([1, None, 2, 3, 4]),
}
NESTS: dict[str, Make] = {
    "itself": lambda array: array,
    "struct": lambda array: pa.StructArray.from_arrays([array], names=["x"], mask=IS_NULL),
    "list": lambda array: pa.ListArray.from_arrays(pa.array(OFFSETS, pa.int32()), array),
    "large_list": lambda array: pa.LargeListArray.from_arrays(pa.array(OFFSETS, pa.int64()), array),
    "list_view": _views(pa.ListViewArray, pa.int32()),
    "large_list_view": _views(pa.LargeListViewArray, pa.int64()),
    "fixed_list": lambda array: pa.FixedSizeListArray.from_arrays(array, 1),
    "map": _map,
    "dictionary": lambda array: pa.DictionaryArray.from_arrays(
        pa.array([4, 0, None, 2, 1], pa.int8()), array
    ),
    "runs": lambda array: pa.RunEndEncodedArray.from_arrays(
        pa.array([1, 2, 3, 4, 5], pa.int16()), array
    ),
}
# what Arrow itself cannot make, or cannot show
IMPOSSIBLE = (pa.ArrowInvalid, pa.ArrowNotImplementedError, TypeError)


def _as_texts(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, list | tuple):
        return [_as_texts(inner) for inner in value]
    if isinstance(value, dict):
        return {name: _as_texts(inner) for name, inner in value.items()}
    return value


def _nested(outer: str, inner: str, leaf: str) -> pa.Array | None:
    try:
        return NESTS[outer](NESTS[inner](LEAVES[leaf]))
    except IMPOSSIBLE:
        return None


@pytest.mark.parametrize("leaf", LEAVES)
def test_shared_values_are_read_as_written(leaf: str) -> None:
    compared = 0
    for outer, inner in product(NESTS, NESTS):
        array = _nested(outer, inner, leaf)
        if array is None:
            continue
        for begin, rows in ((0, 5), (1, 3), (4, 1), (2, 0)):
            part = array.slice(begin, rows)
            written = valid(plain(part))
            kind = plain_type(part.type)
            assert written.type == (pa.string() if kind == pa.binary() else kind)
            assert _as_texts(written.to_pylist()) == _as_texts(part.to_pylist()), part.type
            compared += 1
    assert compared > 200


def test_texts_in_shared_values_need_not_be_utf8() -> None:
    broken = pa.array([b"a\xff", b"b"]).view(pa.string())
    for array in (
        pa.DictionaryArray.from_arrays(pa.array([1, 0], pa.int8()), broken, safe=False),
        pc.run_end_encode(broken.take([1, 0])),
    ):
        assert valid(plain(array)).to_pylist() == ["b", "a\ufffd"]


def _raw(kind: pa.DataType, rows: int, *buffers: Any, children: Any = None) -> pa.Array:
    return pa.Array.from_buffers(
        kind, rows, [buffer and pa.py_buffer(buffer) for buffer in buffers], children=children
    )


OUTSIDE = {
    "dictionary": lambda: pa.DictionaryArray.from_arrays(
        pa.array([0, 2**20], pa.int32()), TEXTS, safe=False
    ),
    "view": lambda: _raw(
        pa.string_view(), 1, None, struct.pack("<i4sii", 2**30, b"hell", 0, 0), b"hello"
    ),
    "list": lambda: _raw(
        pa.list_(pa.string()), 2, None, struct.pack("<iii", 0, 2**30, 5), children=[TEXTS]
    ),
    "list view": lambda: _raw(
        pa.list_view(pa.string()),
        1,
        None,
        struct.pack("<i", 2),
        struct.pack("<i", 2**30),
        children=[TEXTS],
    ),
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_places_outside_of_what_they_point_into_are_damage(name: str, tmp_path: Path) -> None:
    path = _write(tmp_path / "a.arrow", OUTSIDE[name]())
    reader = open_rows(path)
    with pytest.raises(InputError, match=r"a\.arrow: cut off or damaged"):
        list(reader.blocks(reader.schema))


def test_unions_are_refused_with_a_line(tmp_path: Path) -> None:
    kinds = pa.array([0, 0], pa.int8())
    dense = pa.UnionArray.from_dense(kinds, pa.array([0, 0], pa.int32()), [TEXTS])
    path = _write(tmp_path / "a.arrow", dense)
    with pytest.raises(InputError, match=r"a\.arrow: the column 'text' is a union of types"):
        open_rows(path)


LONG = "x y " * 125_000
ROWS = 16_384  # 8 GB of that text


def _one(rows: int = ROWS, kind: pa.DataType | None = None) -> pa.Array:
    places = pa.array([0] * rows, pa.int32())
    return pa.DictionaryArray.from_arrays(places, pa.array([LONG], kind or pa.string()))


def _text_views(kind: pa.DataType) -> pa.Array:
    text = LONG.encode()
    view = struct.pack("<i4sii", len(text), text[:4], 0, 0)
    return _raw(kind, ROWS, None, view * ROWS, text)


def _list_views(make: Any, kind: pa.DataType, values: pa.Array) -> pa.Array:
    sizes = pa.array([len(values)] * ROWS, kind)
    return make.from_arrays(pa.array([0] * ROWS, kind), sizes, values)


def _lists(values: pa.Array) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(range(len(values) + 1), pa.int32()), values)


def _runs(values: pa.Array) -> pa.Array:
    return pa.RunEndEncodedArray.from_arrays(pa.array([ROWS], pa.int32()), values)


def _maps(keys: pa.Array, values: pa.Array) -> pa.Array:
    return pa.MapArray.from_arrays(pa.array(range(ROWS + 1), pa.int32()), keys, values)


def _opaque() -> pa.Array:
    array = _one()
    return pa.ExtensionArray.from_storage(pa.opaque(array.type, "a", "b"), array)


SHORT = pa.array(["a"] * ROWS)
BOMBS: dict[str, Callable[[], pa.Array]] = {
    "dictionary": _one,
    "large dictionary": lambda: _one(kind=pa.large_string()),
    "string view": lambda: _text_views(pa.string_view()),
    "binary view": lambda: _text_views(pa.binary_view()),
    "runs": lambda: _runs(pa.array([LONG])),
    "runs of a dictionary": lambda: _runs(_one(1)),
    "list view": lambda: _list_views(pa.ListViewArray, pa.int32(), pa.array([LONG])),
    "large list view": lambda: _list_views(pa.LargeListViewArray, pa.int64(), pa.array([LONG])),
    "list of a dictionary": lambda: _lists(_one()),
    "list of runs": lambda: _lists(_runs(pa.array([LONG]))),
    "struct of views": lambda: pa.StructArray.from_arrays(
        [_text_views(pa.string_view())], names=["x"]
    ),
    "struct of list views": lambda: pa.StructArray.from_arrays(
        [_list_views(pa.ListViewArray, pa.int32(), pa.array([LONG]))], names=["x"]
    ),
    "map to a dictionary": lambda: _maps(SHORT, _one()),
    "map from a dictionary": lambda: _maps(_one(), SHORT),
    "fixed list of a dictionary": lambda: pa.FixedSizeListArray.from_arrays(_one(), 1),
    "extension": _opaque,
    "lists of nulls": lambda: pa.ListArray.from_arrays(
        pa.array(range(0, 100_000 * 1000, 100_000), pa.int32()), pa.nulls(100_000 * 1000)
    ),
}
COMPRESSED: dict[str, Callable[[], list[pa.Array]]] = {
    "batch": lambda: [pa.array([LONG] * 400)],
    "columns": lambda: [pa.array([LONG] * 20)] * 20,
    "dictionary": lambda: [
        pa.DictionaryArray.from_arrays(pa.array([0] * ROWS, pa.int32()), pa.array([LONG] * 400))
    ],
}


def _write(path: Path, *columns: pa.Array, stream: bool = False, compression: Any = None) -> Path:
    names = ["text", *map(str, range(1, len(columns)))]
    batch = pa.record_batch(list(columns), names=names)
    options = pa.ipc.IpcWriteOptions(compression=compression)
    new = pa.ipc.new_stream if stream else pa.ipc.new_file
    with pa.OSFile(str(path), "wb") as file, new(file, batch.schema, options=options) as out:
        out.write_batch(batch)
    return path


READING = """
import json, sys
from pathlib import Path
from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.sources.files import unpacking
from dreamer_study.pipeline.sources.files.readers import open_rows
from dreamer_study.pipeline.storage.memory import share_of_memory
unpacking.ALWAYS_UNPACKED = 2**26
unpacking.MOST_TIMES = 2
def most_memory():  # of this program: getrusage counts that of the test's process too
    with open("/proc/self/status") as status:
        return int(next(line for line in status if line.startswith("VmHWM:")).split()[1])
begun = most_memory()
said = {}
for path in map(Path, sys.argv[2:]):
    try:
        with share_of_memory(int(sys.argv[1])):
            reader = open_rows(path, longest=2**21)
            for block in reader.blocks(reader.schema):
                pass
    except InputError as error:
        said[path.name] = str(error)
peak = most_memory() - begun
print(json.dumps({"peak": peak * 1024, "said": said}))
"""
SHARE = 4 * 10**8  # bytes; a decoder may take a quarter of them


def _reading(paths: list[Path]) -> tuple[int, dict[str, str]]:
    command = [sys.executable, "-c", READING, str(SHARE), *map(str, paths)]
    ended = subprocess.run(command, check=True, capture_output=True, text=True)
    result = json.loads(ended.stdout)
    return result["peak"], result["said"]


@pytest.mark.slow
def test_small_files_that_stand_for_gigabytes_are_read_in_the_memory_of_the_study(
    tmp_path: Path,
) -> None:
    paths = [_write(tmp_path / f"{name}.arrow", make()) for name, make in BOMBS.items()]
    assert max(path.stat().st_size for path in paths) < 10**6
    # twice, as what one file leaves behind must be no room for the next
    peak, said = _reading(2 * paths)
    for path in paths:
        assert re.search("unpack to more than", said.get(path.name, "read")), path.name
    assert peak < SHARE


@pytest.mark.slow
def test_compressed_batches_take_the_memory_of_the_study(tmp_path: Path) -> None:
    paths = [
        _write(
            tmp_path / f"{name}.{how}.arrow", *make(), stream=how == "stream", compression="zstd"
        )
        for name, make in COMPRESSED.items()
        for how in ("file", "stream")
    ]
    peak, said = _reading(paths)
    for path in paths:
        assert re.search("one batch of its rows takes more than 95 MB", said[path.name]), path.name
    assert peak < SHARE


def test_a_folder_of_save_to_disk_with_a_dictionary_is_read_as_it_is_without_one(
    tmp_path: Path,
) -> None:
    datasets = pytest.importorskip("datasets")
    texts = ["one text", "another", "one text"]
    read = {}
    for name, column in (
        ("plain", pa.array(texts)),
        ("shared", pa.array(texts).dictionary_encode()),
    ):
        folder = tmp_path / name
        datasets.Dataset(pa.table({"text": column})).save_to_disk(str(folder))
        files = sorted(folder.glob("*.arrow"))
        output = tmp_path / f"read {name}"
        results = read_source(Source("a", text="text", files=("a",)), files, output)
        read[name] = (results["rows"], results["counts"])
    assert read["shared"] == read["plain"]
    assert read["plain"][0] == len(texts)
