"""The `datasets` library and our readers: the same files for a split, and the same rows of a file.

Where they differ, both are written here; docs/your-own.md says why.
"""

import bz2
import csv
import gzip
import io
import json
import lzma
import zipfile

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest

from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.sources.read import check_rows, read_source
from dreamer_study.pipeline.sources.repositories.splits import find_split
from dreamer_study.pipeline.sources.table import resolve_source
from tests.pipeline.documents import read as documents

datasets = pytest.importorskip("datasets")
datasets.disable_progress_bars()
datasets.logging.set_verbosity_error()

ROWS = [
    {"question": 'How far is "there"?', "response": "3 km,\nor 2 miles."},
    {"question": "Größer als \\frac{1}{2}?", "response": "Ja: 漢 \U0001f600"},
    {"question": "Which?", "response": "a;b\tc"},
]
LINES = "".join(json.dumps(row) + "\n" for row in ROWS).encode()


def as_csv(delimiter=","):
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, ROWS[0], delimiter=delimiter)
    writer.writeheader()
    writer.writerows(ROWS)
    return text.getvalue().encode()


def as_arrow(new):
    table = pa.Table.from_pylist(ROWS)
    sink = pa.BufferOutputStream()
    with new(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def as_parquet():
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(ROWS), sink)
    return sink.getvalue().to_pybytes()


def zipped(name, content):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr(name, content)
    return packed.getvalue()


EQUAL = {
    "a.jsonl": LINES,
    "b.ndjson": LINES,
    "c.json": json.dumps(ROWS).encode(),
    "d.json": LINES,
    "e.jsonl.gz": gzip.compress(LINES),
    "f.jsonl.xz": lzma.compress(LINES),
    "g.jsonl.bz2": bz2.compress(LINES),
    "i.jsonl.zip": zipped("rows.jsonl", LINES),
    "j.jsonl": gzip.compress(LINES),  # its name says nothing of it
    "k.jsonl.gz": gzip.compress(LINES) + b"\0" * 512,
    "l.jsonl": b"\xef\xbb\xbf" + LINES,
    "m.jsonl": LINES.removesuffix(b"\n"),
    "n.jsonl": LINES.replace(b"\n", b"\r\n"),
    "o.csv": as_csv(),
    "p.tsv": as_csv("\t"),
    "q.csv.gz": gzip.compress(as_csv()),
    "r.parquet": as_parquet(),
    "s.arrow": as_arrow(pa.ipc.new_stream),
    "t.arrow": as_arrow(pa.ipc.new_file),
}


def theirs(folder, configuration=None, split="train"):
    """The rows that `datasets` reads, or the word "refused"."""
    try:
        rows = datasets.load_dataset(
            str(folder), configuration, split=split, cache_dir=str(folder.parent / "cache")
        )
        return rows.to_list()
    except Exception:  # of many kinds
        return "refused"


def ours(folder, configuration="default", split="train", **entry):
    """The rows that we read, or the word "refused"; and how many we dropped."""
    columns = {"question": "question", "response": "response", **entry}
    source = resolve_source({"name": "s", "repository": "a/b", "split": split, **columns})
    try:
        files = find_split(folder, configuration, split)
        check_rows(source, files)
        read_source(source, files, folder.parent / "out")
    except InputError:
        return "refused", 0
    kept = documents(folder.parent / "out")
    dropped = documents(folder.parent / "out", "dropped")
    names = ("question", "response", *(name for name in entry if name == "answer"))
    return [{name: row[name] for name in names} for row in kept], len(dropped)


@pytest.mark.parametrize("name", EQUAL)
def test_both_read_the_same_rows(tmp_path, name):
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / name).write_bytes(EQUAL[name])
    assert theirs(tmp_path / "set") == ROWS
    assert ours(tmp_path / "set") == (ROWS, 0)


def test_zstd_is_read_without_a_package_that_datasets_needs(tmp_path):
    (tmp_path / "set").mkdir()
    for name in ("train.jsonl.zst", "test.jsonl"):
        (tmp_path / "set" / name).write_bytes(pa.compress(LINES, "zstd", asbytes=True))
        assert ours(tmp_path / "set", split=name.partition(".")[0]) == (ROWS, 0)


@pytest.mark.parametrize("saved", [True, False])
def test_both_read_columns_that_begin_late(tmp_path, saved):
    rows = [{"question": f"{n}?", "response": str(n)} for n in range(3000)]
    rows[2500:] = [row | {"answer": row["response"]} for row in rows[2500:]]
    (tmp_path / "set").mkdir()
    if saved:
        pq.write_table(
            pa.Table.from_pylist(rows[2500:] + rows[:2500]), tmp_path / "set" / "rows.parquet"
        )
    else:
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / "set" / "rows.jsonl").write_text(lines)
    found, _ = ours(tmp_path / "set", answer="answer")
    known = [{**row, "answer": row["answer"] or ""} for row in theirs(tmp_path / "set")]
    assert found == known
    assert sum(bool(row["answer"]) for row in found) == 500


KEPT = ROWS[:1]
# What a file holds, the rows that `datasets` reads, and ours with the number of dropped rows.
DIFFERENT = {
    "a broken line: counted": (
        "a.jsonl",
        json.dumps(KEPT[0]) + '\n{"question": "b", "resp\n',
        "refused",
        (KEPT, 1),
    ),
    "a raw tab and NaN: read": (
        "a.jsonl",
        '{"question": "tab\there", "response": "r", "x": NaN}\n',
        "refused",
        ([{"question": "tab\there", "response": "r"}], 0),
    ),
    "a byte that is no UTF-8: read": (
        "a.jsonl",
        b'{"question": "caf\xe9", "response": "r"}\n',
        "refused",
        ([{"question": "caf\ufffd", "response": "r"}], 0),
    ),
    "a record of another length: counted": (
        "a.csv",
        "question,response\na,b\nb,c,too many\n",
        "refused",
        ([{"question": "a", "response": "b"}], 1),
    ),
    "another delimiter: found": (
        "a.csv",
        "question;response\na;b\n",
        [{"question;response": "a;b"}],
        ([{"question": "a", "response": "b"}], 0),
    ),
    "a number: a text as written": (
        "a.jsonl",
        '{"question": "a", "response": 0.10}\n',
        [{"question": "a", "response": 0.1}],
        ([{"question": "a", "response": "0.10"}], 0),
    ),
    "an object among texts: dropped": (
        "a.jsonl",
        json.dumps(KEPT[0]) + '\n{"question": "b", "response": {"value": 2}}\n',
        [*KEPT, {"question": "b", "response": {"value": 2}}],
        (KEPT, 1),
    ),
    "a column twice: refused": (
        "a.csv",
        "question,response,response\na,b,c\n",
        [{"question": "a", "response": "b", "response.1": "c"}],
        ("refused", 0),
    ),
    "a quote behind a backslash: refused": (
        "a.csv",
        'question,response\n"say \\"a\\"","b"\n',
        [{"question": 'say \\a\\""', "response": "b"}],
        ("refused", 0),
    ),
    "several files in a .zip: refused": (
        "a.zip",
        None,
        KEPT * 2,
        ("refused", 0),
    ),
}


@pytest.mark.parametrize("what", DIFFERENT)
def test_where_both_differ(tmp_path, what):
    name, content, known, found = DIFFERENT[what]
    if content is None:
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            for inside in ("a.jsonl", "b.jsonl"):
                archive.writestr(inside, json.dumps(KEPT[0]) + "\n")
        content = packed.getvalue()
    (tmp_path / "set").mkdir()
    data = content.encode() if isinstance(content, str) else content
    (tmp_path / "set" / name).write_bytes(data)
    assert theirs(tmp_path / "set") == known
    assert ours(tmp_path / "set") == found


def card(**configurations):
    """The header of a card: the pattern of each split of each configuration."""
    text = "---\nconfigs:\n"
    for name, splits in configurations.items():
        text += f"- config_name: {name}\n  data_files:\n"
        for split, path in splits.items():
            text += f"  - split: {split}\n    path: '{path}'\n"
    return f"{text}---\n"


# Files, the card, and what is asked for.
LAYOUTS = {
    "flat": ("train.jsonl test.jsonl", "", "default/train default/test default/dev"),
    "one file": ("rows.jsonl", "", "default/train default/test"),
    "shards": ("data/train-00000-of-00002.jsonl data/train-00001-of-00002.jsonl", "", ""),
    "shards of other splits": ("data/cot-00000-of-00001.jsonl", "", "default/cot default/train"),
    "a prefix": ("riddles_train.jsonl riddles_eval.jsonl", "", "default/train default/test"),
    "folders of splits": ("fr/train/a.jsonl fr/test/b.jsonl", "", "default/train default/test"),
    "folders of no split": ("2023/a.jsonl 2024/b.jsonl", "", ""),
    "a long word": ("training.jsonl validation.jsonl", "", "default/train default/validation"),
    "a card": (
        "a.jsonl b.jsonl c.jsonl",
        card(default={"train": "[ab].jsonl", "test": "c.jsonl"}),
        "default/train default/test default/validation",
    ),
    "a card without train": ("a.jsonl", card(default={"test": "a.jsonl"}), "default/train"),
    "a card that is wrong": ("train.jsonl", card(default={"train": "trian.jsonl"}), ""),
    "a card of one configuration": ("x/a.jsonl", card(x={"train": "x/*"}), "default/train x/train"),
    "a card of two": (
        "x/a.jsonl y/a.jsonl",
        card(x={"train": "x/*"}, y={"train": "y/*"}),
        "default/train x/train y/train z/train",
    ),
    "a card of some shards": (
        "d/train-0.jsonl d/train-1.jsonl d/train-2.jsonl",
        card(default={"train": "d/train-[02].jsonl"}),
        "",
    ),
    "hidden files": ("train.jsonl .cache/train.jsonl", "", ""),
    "a folder alone": (
        "de/train.jsonl fr/train.jsonl",
        "---\nconfigs:\n- config_name: german\n  data_dir: de\n---\n",
        "german/train default/train",
    ),
    "a default": (
        "x/a.jsonl y/a.jsonl",
        card(x={"train": "x/*"}, y={"train": "y/*"}).removesuffix("---\n")
        + "  default: true\n---\n",
        "",
    ),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_both_find_the_same_files(tmp_path, name):
    files, header, asks = LAYOUTS[name]
    for file in files.split():
        path = tmp_path / "set" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"question": file, "response": "r"}) + "\n")
    if header:
        (tmp_path / "set" / "README.md").write_text(header)
    for ask in asks.split() or ["default/train"]:
        configuration, split = ask.split("/")
        named = None if configuration == "default" else configuration
        known = theirs(tmp_path / "set", named, split)
        try:
            paths = find_split(tmp_path / "set", configuration, split)
        except InputError:
            found = "refused"
        else:
            found = [json.loads(path.read_text()) for path in paths]
        assert found == known, ask
