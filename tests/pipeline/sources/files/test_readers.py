"""The readers: every container gives the same rows, and files that end early or hold broken rows
are told apart."""

import gzip
import json
import tracemalloc

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.sources.columns.names import named_columns
from dreamer_study.pipeline.sources.columns.sql import bind, evaluate
from dreamer_study.pipeline.sources.files.readers import open_rows


def as_texts(table):
    return zip(*(column.cast(pa.string()).to_pylist() for column in table.columns), strict=True)


def rows_of(path, expressions, limit=None):
    reader = open_rows(path)
    columns = named_columns(expressions, reader.schema)
    bound = [bind(text, columns) for text in expressions]
    return [
        dict(zip(expressions, row, strict=True))
        for block in reader.blocks(columns, limit)
        for row in as_texts(evaluate(bound, block.table))
    ]


def malformed_in(path, paths=("q",)):
    return [row for block in blocks_of(open_rows(path), paths) for row in block.malformed]


def blocks_of(reader, names):
    return reader.blocks(named_columns(names, reader.schema))


def test_all_containers_give_the_same_rows(tmp_path):
    odd = 'é "x" \\ \n\t\x00 漢\u2028 \U0001f600'
    rows = [{"q": odd, "turns": [{"value": "a"}, {"value": odd}]}, {"q": "", "turns": []}]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "a.jsonl").write_text(lines)
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    (tmp_path / "f.jsonl.zst").write_bytes(pa.compress(lines.encode(), "zstd", asbytes=True))
    (tmp_path / "g.json").write_text("".join(json.dumps(row, indent=2) + "\n" for row in rows))
    (tmp_path / "c.json").write_text(json.dumps(rows))
    (tmp_path / "d.json").write_text(json.dumps(rows, indent=2, ensure_ascii=False))
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "e.parquet")
    first, last, every = (
        "list_extract(turns, 1).value",
        "turns[-1].value",
        "list_transform(turns, lambda t: t.value)",
    )
    expected = [
        {"q": odd, first: "a", last: odd, every: f"a\n{odd}"},
        {"q": "", first: None, last: None, every: ""},
    ]
    for path in sorted(tmp_path.iterdir()):
        assert rows_of(path, ["q", first, last, every]) == expected, path.name


def test_numbers_and_booleans_become_the_same_text_everywhere(tmp_path):
    rows = [{"x": 51.0, "y": 7, "z": True}, {"x": 0.25, "y": -1, "z": False}]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name in ("a.parquet", "a.jsonl"):
        assert rows_of(tmp_path / name, ["x", "y", "z"]) == [
            {"x": "51", "y": "7", "z": "true"},
            {"x": "0.25", "y": "-1", "z": "false"},
        ]


def test_bytes_that_are_not_utf8_are_replaced_in_every_container(tmp_path):
    table = pa.table({"x": pa.array([b"caf\xe9", b"fine", None]).view(pa.string())})
    pq.write_table(table, tmp_path / "a.parquet")
    pq.write_table(pa.table({"x": pa.array([b"caf\xe9", b"fine", None])}), tmp_path / "b.parquet")
    (tmp_path / "c.jsonl").write_bytes(b'{"x": "caf\xe9"}\n{"x": "fine"}\n{"x": null}\n')
    for name in ("a.parquet", "b.parquet", "c.jsonl"):
        assert [row["x"] for row in rows_of(tmp_path / name, ["x"])] == ["caf\ufffd", "fine", None]
    (tmp_path / "d.csv").write_bytes(b"x,y\ncaf\xe9,1\n")
    assert rows_of(tmp_path / "d.csv", ["x"]) == [{"x": "caf\ufffd"}]


def test_objects_where_a_text_is_wanted_name_their_fields_and_an_odd_one_is_no_text(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"q": [{"role": "user", "value": "a"}]}\n{"q": null}\n')
    with pytest.raises(InputError, match="q is not text but has the fields role, value"):
        rows_of(tmp_path / "a.jsonl", ["q"])
    (tmp_path / "b.jsonl").write_text('{"q": {"value": "a"}}\n{"q": "b"}\n')
    assert rows_of(tmp_path / "b.jsonl", ["q"]) == [{"q": "b"}]
    (block,) = blocks_of(open_rows(tmp_path / "b.jsonl"), ["q"])
    assert block.not_text == [(0, '{"q": {"value": "a"}}')]


def test_broken_lines_are_handed_on_and_keep_their_row_numbers(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(
        b'{"q": "a"}\n\n{"q": "b\nnot json\n[1]\n{"q": "c\\ud83d"}\n{"q": "tab\there"}\n{"q": "\xff"}'
    )
    reader = open_rows(path)
    (block,) = blocks_of(reader, ["q"])
    assert block.rows.to_pylist() == [0, 4, 5, 6]
    assert block.table["q"].to_pylist() == ["a", "c\ufffd", "tab\there", "\ufffd"]
    assert block.malformed == [(1, '{"q": "b'), (2, "not json"), (3, "[1]")]
    assert rows_of(path, ["q"], limit=3) == [{"q": "a"}]


def test_csv_records_of_another_length_are_malformed_and_quoted_lines_are_not(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('q,a\n"two\nlines, with ""quotes""",1\ntoo,many,cells\nlast,2\n')
    assert rows_of(path, ["q", "a"]) == [
        {"q": 'two\nlines, with "quotes"', "a": "1"},
        {"q": "last", "a": "2"},
    ]
    assert malformed_in(path) == [(1, "too,many,cells")]


@pytest.mark.parametrize(
    "name", ["a.parquet", "a.jsonl.gz", "a.jsonl.zst", "a.jsonl", "a.json", "a.csv"]
)
def test_a_file_cut_off_anywhere_in_its_last_part_is_named(tmp_path, name):
    rows = [{"q": f"question {i} of many", "a": str(i)} for i in range(200)]
    path = tmp_path / name
    if name == "a.parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif name == "a.json":
        path.write_text(json.dumps(rows))
    elif name == "a.csv":
        path.write_text("q,a\n" + "".join(f'"{row["q"]}","{row["a"]}"\n' for row in rows))
    else:
        lines = "".join(json.dumps(row) + "\n" for row in rows).encode()
        packed = {
            "gz": gzip.compress,
            "zst": lambda data: pa.compress(data, "zstd", asbytes=True),
            "jsonl": bytes,
        }
        path.write_bytes(packed[name.rpartition(".")[2]](lines))
    whole = path.read_bytes()
    for missing in (3, 5, 9):
        path.write_bytes(whole[:-missing])
        with pytest.raises(InputError, match=rf"{name}: .*(cut off|damaged).*fetch it again"):
            rows_of(path, ["q"])


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.csv", "a.jsonl.gz"])
def test_another_encoding_is_named(tmp_path, name, encoding):
    path = tmp_path / name
    text = "q,a\n1,2\n" if name == "a.csv" else '{"q": "1"}\n{"q": "2"}\n'
    path.write_bytes(
        gzip.compress(text.encode(encoding)) if name.endswith(".gz") else text.encode(encoding)
    )
    with pytest.raises(InputError, match=rf"{name}: not UTF-8 text; convert it"):
        rows_of(path, ["q"])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", b"<html>\n<body>\n", "none of the first 2 rows is a record"),
        ("a.parquet", b"no", "cut off or damaged"),
        ("a.doc", b"", "unknown kind of file"),
        (
            "a.json",
            b'[{"q": "a"}, {"q": ' + b"[" * 10**5 + b"]" * 10**5 + b"}]",
            "row 1 of its array cannot be read",
        ),
        (
            "a.json",
            b'[{"q": "a"}, {"q": ' + b"9" * 6000 + b"}]",
            "row 1 of its array cannot be read",
        ),
        (
            "a.json",
            b'[{"q": "a"}, {"q" "c"}, ' + b'{"q": "d"}, ' * 20 + b"{}]",
            "broken JSON in row 1 of its array",
        ),
    ],
    ids=[
        "html",
        "no parquet",
        "doc",
        "nested without end",
        "number without end",
        "broken element",
    ],
)
def test_a_file_that_cannot_be_read_is_named_with_the_reason(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=rf"{name}: {message}"):
        rows_of(tmp_path / name, ["q"])


@pytest.mark.slow
def test_an_array_is_not_held_in_memory(tmp_path):
    path = tmp_path / "a.json"
    with path.open("w") as file:
        file.write("[")
        for i in range(20_000):
            file.write(("," if i else "") + json.dumps({"q": "x" * 1000, "n": i}))
        file.write("]")
    tracemalloc.start()
    count = sum(len(block.table) for block in blocks_of(open_rows(path), ["n"]))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 20_000
    assert peak < path.stat().st_size / 2


def test_an_element_longer_than_the_buffer_is_read(tmp_path):
    rows = [{"q": "a"}, {"q": "x" * 3_000_000}, {"q": "b"}]
    (tmp_path / "a.json").write_text(json.dumps(rows))
    assert rows_of(tmp_path / "a.json", ["q"]) == rows


@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.json", "a.csv", "a.txt"])
def test_a_row_longer_than_the_limit_is_one_line_of_error(tmp_path, name):
    text = {"a.json": '[{"q": "%s"}]', "a.csv": 'q,a\n"%s",1\n', "a.txt": "%s"}.get(
        name, '{"q": "a"}\n{"q": "%s"}\n'
    )
    data = (text % ("x" * 300_000)).encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    with pytest.raises(
        InputError, match=rf"{name}: .* is longer than 100,000 bytes; raise the source's `longest`"
    ):
        list(
            blocks_of(
                open_rows(tmp_path / name, longest=100_000), ["text" if name == "a.txt" else "q"]
            )
        )


@pytest.mark.slow
def test_a_long_line_is_not_held_in_memory(tmp_path):
    with gzip.open(tmp_path / "a.jsonl.gz", "wb", 1) as file:
        file.writelines([b'{"q": "', *[b"x" * 10**6] * 300, b'"}\n'])
    tracemalloc.start()
    with pytest.raises(InputError, match="line 1 is longer than 64 MB"):
        open_rows(tmp_path / "a.jsonl.gz").count()
    assert tracemalloc.get_traced_memory()[1] < 250e6
    tracemalloc.stop()


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|", "^"])
def test_csv_with_any_delimiter(tmp_path, delimiter):
    for name in ("a.csv", "a.tsv.gz"):
        data = f'q{delimiter}a b\n"1, 2; 3"{delimiter}4\n'.encode()
        (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        given = delimiter if delimiter == "^" else ""
        (block,) = blocks_of(open_rows(tmp_path / name, delimiter=given), ["q", "a b"])
        assert block.table.to_pylist() == [{"q": "1, 2; 3", "a b": "4"}]


def test_values_keep_their_text_in_json_of_mixed_kinds(tmp_path):
    rows = [
        {"q": value, "n": {"d": value}}
        for value in ("2020-01-01", "12:30", 5, 1.0, True, None, ["a", "b"], {"a": 1})
    ]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    texts = ["2020-01-01", "12:30", "5", "1", "true", None, "a\nb"]  # an object is no text
    assert [row["q"] for row in rows_of(tmp_path / "a.jsonl", ["q"])] == texts
    (tmp_path / "b.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows[:5]))
    assert [row["n.d"] for row in rows_of(tmp_path / "b.jsonl", ["n.d"])] == [
        "2020-01-01",
        "12:30",
        "5",
        "1.0",
        "true",
    ]


def test_odd_objects_spoil_no_other_row(tmp_path):
    deep = "[" * 100_000 + "]" * 100_000
    odd = [
        '{"Q": "a", "q": 1, "": 2, "m": {"A": 1, "a": 2}, "e": {}}',
        f'{{"Q": "b", "m": {deep}}}',
        '{"Q": "c"}',
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(odd) + "\n")
    assert rows_of(tmp_path / "a.jsonl", ["Q", "m.a"]) == [
        {"Q": "a", "m.a": "2"},
        {"Q": "c", "m.a": None},
    ]
    assert [row for row, _ in malformed_in(tmp_path / "a.jsonl", ["Q"])] == [1]
