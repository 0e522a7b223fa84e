"""No row is lost in silence: what a column holds in one row does not decide what it is in others."""

import bz2
import gzip
import json
import lzma
import zipfile

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.sources.read import check_rows, read_source
from dreamer_study.pipeline.sources.table import resolve_source
from tests.pipeline.documents import lines
from tests.pipeline.documents import read as documents

PLAIN = {"name": "s", "files": "a.jsonl", "question": "q", "response": "r"}
LATE = 2500  # rows: more than one block
ROWS = [{"q": f"Who is number {n}?", "r": f"Ada {n}."} for n in range(4000)]


def found(path, **entry):
    """The texts of the documents of a file, and the reasons of what was dropped by row."""
    source = resolve_source(PLAIN | entry)
    check_rows(source, [path])
    result = read_source(source, [path], path.parent / "out")
    kept = [
        (row["question"], row["response"], row["answer"]) for row in documents(path.parent / "out")
    ]
    dropped = {row["row"]: row["reason"] for row in documents(path.parent / "out", "dropped")}
    return kept, dropped, result["objects"]


def changed_late(change):
    return [row if n < LATE else change(row) for n, row in enumerate(ROWS)]


@pytest.mark.parametrize(
    ("rows", "entry"),
    [
        (
            [
                {"q": row["q"], "s": row["r"]} if n < LATE or n % 3 else row
                for n, row in enumerate(ROWS)
            ],
            {"response": "coalesce(r, s)"},
        ),
        ([{**row, "r": [row["r"]]} for row in ROWS[:LATE]] + ROWS[LATE:], {}),
        (changed_late(lambda row: {**row, "r": [row["r"]]}), {}),
        (changed_late(lambda row: {**row, "r": [{"type": "text", "text": row["r"]}]}), {}),
        (changed_late(lambda row: {**row, "r": [{"role": "assistant", "content": row["r"]}]}), {}),
    ],
    ids=["a late name", "lists first", "lists later", "parts later", "turns later"],
)
def test_every_row_is_a_document_whatever_other_rows_hold(tmp_path, rows, entry):
    kept, dropped, _ = found(lines(tmp_path / "a.jsonl", rows), **entry)
    assert (len(kept), dropped) == (4000, {})
    assert [response for _, response, _ in kept] == [row["r"] for row in ROWS]


@pytest.mark.parametrize(
    ("early", "late", "column"),
    [
        (lambda row: row, lambda row: {**row, "a": row["r"]}, "a"),
        (lambda row: {**row, "m": None}, lambda row: {**row, "m": {"a": row["r"]}}, "m.a"),
        (lambda row: {**row, "m": {}}, lambda row: {**row, "m": {"a": row["r"]}}, "m.a"),
        (lambda row: {**row, "m": []}, lambda row: {**row, "m": [{"a": row["r"]}]}, "m[1].a"),
    ],
)
def test_a_column_or_field_may_begin_late(tmp_path, early, late, column):
    rows = [*map(early, ROWS[:LATE]), *map(late, ROWS[LATE:])]
    kept, _, _ = found(lines(tmp_path / "a.jsonl", rows), answer=column)
    assert [answer for _, _, answer in kept[LATE - 1 : LATE + 1]] == ["", f"Ada {LATE}."]


@pytest.mark.parametrize(
    "value",
    [
        {"value": 2},
        {"text": "a"},
        [1, 2],
        ["a", {"b": 1}],
        [["a"], ["b"]],
        [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}],
        [{"type": "text"}],
        {"type": "text", "text": {"a": 1}},
    ],
)
def test_source_of_json_is_no_text_and_its_row_is_counted(tmp_path, value):
    rows = [*ROWS[:5], {"q": "Who?", "r": value}]
    kept, dropped, _ = found(lines(tmp_path / "a.jsonl", rows))
    assert (len(kept), dropped) == (5, {5: "malformed row: not text"})


def chat(asked, answered):
    return {"m": [{"role": "user", "content": asked}, {"role": "assistant", "content": answered}]}


TEXT, PICTURE = {"type": "text", "text": "Who?"}, {"type": "image_url", "image_url": {"url": "x"}}


@pytest.mark.parametrize(
    "expressions",
    [
        {"question": "asked(m)", "response": "answered(m)"},
        {
            "question": "list_filter(m, lambda t: t.role = 'user')[1].content",
            "response": "list_filter(m, lambda t: t.role = 'assistant')[-1].content",
        },
    ],
)
@pytest.mark.parametrize(
    "chats",
    [
        [chat([TEXT], "Ada")] * 3,
        [chat([TEXT], [{"type": "text", "text": "Ada"}])] * 3,
        [chat([PICTURE, TEXT], [{"type": "text", "text": "Ada"}])] * 2,
        [chat("Who?", "Ada")] * 5 + [chat([TEXT, PICTURE], "Ada")],
        [chat([PICTURE, TEXT], [{"type": "text", "text": "Ada"}])] * 5 + [chat("Who?", "Ada")],
    ],
    ids=["user in parts", "all in parts", "pictures", "one in parts", "one a text"],
)
@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_messages_in_parts_are_texts(tmp_path, chats, expressions, kind):
    if kind == "parquet":
        try:
            table = pa.Table.from_pylist(chats)
        except pa.ArrowInvalid:
            pytest.skip("no column of Parquet holds texts and parts")
        pq.write_table(table, tmp_path / "a.parquet")
    lines(tmp_path / "a.jsonl", chats)
    kept, dropped, objects = found(tmp_path / f"a.{kind}", **expressions)
    assert (kept, dropped) == ([("Who?", "Ada", "")] * len(chats), {})
    assert objects == sum("image_url" in json.dumps(row) for row in chats)


@pytest.mark.parametrize("form", [lambda m: m, json.dumps, str], ids=["turns", "JSON", "Python"])
@pytest.mark.parametrize(("role", "said"), [("role", "content"), ("from", "value")])
def test_a_longer_conversation_gives_its_last_response_with_what_was_before(
    tmp_path, form, role, said
):
    def turns(*texts):
        speakers = ("user", "assistant") if role == "role" else ("human", "gpt")
        return form([{role: speakers[n % 2], said: text} for n, text in enumerate(texts)])

    system = [{role: "system", said: "Be kind."}, {role: "user", said: "Hi"}]
    rows = [
        turns("Who?", "Ada"),
        turns("Who?", "Ada", "And who else?", "Grace"),
        turns("Who?", "Ada", "And who else?"),
        turns("Who?"),
        form([*system, {role: "assistant", said: "Hello"}]),
        form([{role: "assistant", said: "Hello"}]),
    ]
    path = lines(tmp_path / "a.jsonl", [{"m": row} for row in rows])
    kept, dropped, _ = found(path, question="asked(m)", response="answered(m)")
    assert [pair[:2] for pair in kept] == [
        ("Who?", "Ada"),
        ("Who?\n\nAda\n\nAnd who else?", "Grace"),
        ("Who?", "Ada"),
        ("Hi", "Hello"),
    ]
    assert dropped == {3: "empty question", 5: "empty question"}


USER, MODEL = {"role": "user", "content": "Who?"}, {"role": "assistant", "content": "Ada"}
CALL = {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]}


@pytest.mark.parametrize(
    ("turns", "question", "response"),
    [
        ([{"role": "developer", "content": "Be kind."}, USER, MODEL], "Who?", "Ada"),
        ([{"role": "assistant", "content": "Hello."}, USER, MODEL], "Hello.\n\nWho?", "Ada"),
        ([USER, CALL, {"role": "tool", "content": "A. L."}, MODEL], "Who?\n\nA. L.", "Ada"),
        ([USER, {**MODEL, "reasoning_content": "Hm."}], "Who?", "Ada"),
        ([USER, {**MODEL, "thinking": "Hm."}], "Who?", "Ada"),
        ([USER, {"role": "thinking", "content": "Hm."}, MODEL], "Who?", "Ada"),
        (
            [USER, {**MODEL, "channel": "analysis"}, {**MODEL, "channel": "final"}],
            "Who?",
            "Ada",
        ),
        (
            [{"speaker": "user", "text": "Who?"}, {"speaker": "bot", "text": "Ada"}],
            "Who?",
            "Ada",
        ),
        ([{"role": "Human", "text": "Who?"}, {"role": "AI", "text": "Ada"}], "Who?", "Ada"),
        ([{"from": "human", "value": "Who?"}, {"from": "chatgpt", "value": "Ada"}], "Who?", "Ada"),
        ([USER, MODEL, USER, CALL], "Who?", "Ada"),
    ],
)
@pytest.mark.parametrize("form", [lambda m: m, json.dumps], ids=["turns", "JSON"])
def test_who_speaks_is_known_in_every_form(tmp_path, turns, question, response, form):
    path = lines(tmp_path / "a.jsonl", [{"m": form(turns)}])
    kept, dropped, _ = found(path, question="asked(m)", response="answered(m)")
    assert (kept, dropped) == ([(question, response, "")], {})


@pytest.mark.parametrize(
    "thought",
    [
        {"type": "thinking", "thinking": "Hm."},
        {"type": "reasoning", "text": "Hm."},
        {"type": "redacted_thinking", "data": "x"},
    ],
)
@pytest.mark.parametrize(
    "response", ["answered(m)", "list_filter(m, lambda t: t.role = 'assistant')[-1].content"]
)
def test_a_part_that_thinks_is_no_response_and_no_picture(tmp_path, thought, response):
    chats = [chat([TEXT], [thought, {"type": "text", "text": "Ada"}])] * 2
    for kind in ("jsonl", "parquet"):
        lines(tmp_path / "a.jsonl", chats)
        fields = pa.struct([(name, pa.string()) for name in ("type", "text", "thinking", "data")])
        turn = pa.struct([("role", pa.string()), ("content", pa.list_(fields))])
        schema = pa.schema([("m", pa.list_(turn))])
        pq.write_table(pa.Table.from_pylist(chats, schema), tmp_path / "a.parquet")
        kept, dropped, objects = found(
            tmp_path / f"a.{kind}", question="asked(m)", response=response
        )
        assert (kept, dropped, objects) == ([("Who?", "Ada", "")] * 2, {}, 0)


def test_of_keys_that_differ_in_case_the_one_that_is_spelled_is_read(tmp_path):
    row = {"Q": "OTHER", "q": "Who?", "r": "Ada", "R": "OTHER", "m": {"A": "OTHER", "a": "1"}}
    path = lines(tmp_path / "a.jsonl", [row])
    pq.write_table(pa.Table.from_pylist([{"q": "OTHER", "Q": "Who?", "r": "Ada"}]), tmp_path / "p")
    (tmp_path / "p").rename(tmp_path / "a.parquet")
    assert found(path, answer="m.a")[0] == [("Who?", "Ada", "1")]
    assert found(tmp_path / "a.parquet", question="Q")[0] == [("Who?", "Ada", "")]
    (tmp_path / "a.csv").write_text("Q,q,r\nOTHER,Who?,Ada\n")
    assert found(tmp_path / "a.csv")[0] == [("Who?", "Ada", "")]
    lines(tmp_path / "b.jsonl", [{"Question": "a", "QUESTION": "b", "r": "c"}])
    for question in ("question", "concat(Question, QUESTION)"):
        with pytest.raises(InputError, match="Question and QUESTION differ in case alone"):
            found(tmp_path / "b.jsonl", question=question)
    assert found(tmp_path / "b.jsonl", question="'Question'")[0] == [("Question", "c", "")]


def test_what_stands_twice_is_refused_where_it_is_named(tmp_path):
    names = ["q", "r", "r"]
    pq.write_table(pa.table([["a"], ["b"], ["c"]], names=names), tmp_path / "a.parquet")
    (tmp_path / "a.csv").write_text("q,r,r\na,b,c\n")
    for name in ("a.csv", "a.parquet"):
        with pytest.raises(InputError, match=f"{name}: 2 columns are named 'r'; rename one"):
            found(tmp_path / name)
        assert found(tmp_path / name, response="q")[0] == [("a", "a", "")]
    for row in ('"r": "b"', '"r": "b\t"'):
        (tmp_path / "a.jsonl").write_text(
            f'{{"q": "a", "r": "c"}}\n{{"q": "a", {row}, "r": "c"}}\n'
        )
        with pytest.raises(InputError, match=r"a\.jsonl: row 1 holds 'r' twice"):
            found(tmp_path / "a.jsonl")
        assert len(found(tmp_path / "a.jsonl", response="q")[0]) == 2


def test_a_field_that_stands_twice_is_refused_where_it_is_read(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"q": "a", "r": "b", "m": {"x": "1", "y": "2", "x": "3"}}\n')
    with pytest.raises(InputError, match=r"row 0 holds 'x' twice"):
        found(tmp_path / "a.jsonl", answer="m.x")
    assert found(tmp_path / "a.jsonl", answer="m.y")[0] == [("a", "b", "2")]


def test_files_that_were_joined_or_padded_lose_nothing(tmp_path):
    part = "".join(json.dumps(row) + "\n" for row in ROWS[:2]).encode()
    (tmp_path / "a.jsonl").write_bytes(b"\xef\xbb\xbf" + part + b"\xef\xbb\xbf" + part)
    assert len(found(tmp_path / "a.jsonl")[0]) == 4
    (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbfq,r\na,b\n\xef\xbb\xbfc,d\n")
    assert [row[0] for row in found(tmp_path / "a.csv")[0]] == ["a", "c"]
    array = json.dumps(ROWS[:2]).encode()
    (tmp_path / "a.json").write_bytes(array + b"\n\xef\xbb\xbf" + array)
    assert len(found(tmp_path / "a.json")[0]) == 4
    (tmp_path / "a.json").write_bytes(array + b'\n{"q": "a"}')
    with pytest.raises(InputError, match=r"behind its array stands '\{"):
        found(tmp_path / "a.json")
    (tmp_path / "a.jsonl.zst").write_bytes(pa.compress(part, "zstd", asbytes=True) * 2)
    assert len(found(tmp_path / "a.jsonl.zst")[0]) == 4
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(part) * 2 + b"\0" * 1000)
    assert len(found(tmp_path / "a.jsonl.gz")[0]) == 4


@pytest.mark.parametrize(
    "pack",
    [
        gzip.compress,
        lzma.compress,
        bz2.compress,
        lambda data: pa.compress(data, "zstd", asbytes=True),
    ],
    ids=["gz", "xz", "bz2", "zst"],
)
@pytest.mark.parametrize("ending", ["jsonl", "JSONL", "ndjson", "jsonl.gz", "jsonl.xz", "json"])
def test_a_file_is_decompressed_by_what_it_holds_and_one_that_ends_early_is_refused(
    tmp_path, pack, ending
):
    data = pack("".join(json.dumps(row) + "\n" for row in ROWS).encode())
    path = tmp_path / f"a.{ending}"
    path.write_bytes(data)
    assert len(found(path)[0]) == 4000
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(InputError, match="cut off or damaged; fetch it again"):
        found(path)


def test_one_file_in_a_zip_is_read_and_several_are_refused(tmp_path):
    for count in (1, 2):
        with zipfile.ZipFile(tmp_path / f"{count}.zip", "w") as archive:
            archive.writestr("__MACOSX/x", "")
            archive.writestr("README.md", "About the data.")
            for number in range(count):
                archive.writestr(f"{number}.csv", "q,r\na,b\n")
    assert found(tmp_path / "1.zip")[0] == [("a", "b", "")]
    with pytest.raises(
        InputError, match=r"holds 2 files \(0.csv, 1.csv\), where one is read; unpack"
    ):
        found(tmp_path / "2.zip")


def test_a_quote_behind_a_backslash_is_named_and_read_where_the_source_says_so(tmp_path):
    (tmp_path / "a.csv").write_text('q,r\n"Who is \\"Ada\\", then?","b"\n')
    with pytest.raises(InputError, match=r"line 2 is not CSV .* give the source `escape: "):
        found(tmp_path / "a.csv")
    assert found(tmp_path / "a.csv", escape="\\")[0] == [('Who is "Ada", then?', "b", "")]


@pytest.mark.parametrize(
    ("line", "question", "response"),
    [
        (
            r'"He asked: \"What is $\frac{1}{2}+\sqrt{x}$?\"","It is $\frac{3}{4}$ and \neq 1."',
            r'He asked: "What is $\frac{1}{2}+\sqrt{x}$?"',
            r"It is $\frac{3}{4}$ and \neq 1.",
        ),
        ('"\\"a\\"\n\\frac\\\n\\"b\\"","c"', '"a"\n\\frac\\\n"b"', "c"),
        (r'"a \\ b\\","c \\\"d\\\""', "a \\\\ b\\", r"c \"d\""),
        (r"\frac \"a\",\"b\"", r'\frac "a"', '"b"'),
        (r'"a ""b"" \"c\"",\sqrt', 'a "b" "c"', r"\sqrt"),
        (r'"\"","\"\""', '"', '""'),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n", ""])
def test_an_escape_sign_is_one_before_a_quote_alone(tmp_path, line, question, response, end):
    (tmp_path / "a.csv").write_bytes(f"q,r\n{line}{end}".encode())
    assert found(tmp_path / "a.csv", escape="\\")[0] == [(question, response, "")]


def test_escaped_quotes_leave_the_numbers_of_lines(tmp_path):
    (tmp_path / "a.csv").write_text('q,r\n"\\"a\n\\"",b\n"c"d,e\n')
    with pytest.raises(InputError, match="line 4 is not CSV"):
        found(tmp_path / "a.csv", escape="\\")


@pytest.mark.slow
@pytest.mark.parametrize("indent", [None, 1])
def test_rows_inside_an_object_are_told_and_read_by_the_name_of_their_field(tmp_path, indent):
    content = {"version": "1.0", "about": {"rows": [1, 2]}, "n": 12, "rows": ROWS, "end": [None]}
    path = tmp_path / "a.json"
    path.write_text(json.dumps(content, indent=indent))
    with pytest.raises(
        InputError, match=r"its `rows` holds 4,000 records: give the .*`field: rows`"
    ):
        found(path)
    assert len(found(path, field="rows")[0]) == 4000
    with pytest.raises(InputError, match="no field 'row'; it has version, about, n, rows, end"):
        found(path, field="row")
    with pytest.raises(InputError, match="its field 'about' holds no list"):
        found(path, field="about")
    path.write_text(path.read_text()[:-100_000])
    with pytest.raises(InputError, match="cut off in row"):
        found(path, field="rows")


def test_rows_below_several_names_are_read_by_their_path(tmp_path):
    path = tmp_path / "a.json"
    content = {"v": 1, "set": {"about": {"n": [1]}, "train": ROWS[:3], "dev": ROWS[:1]}, "x": [2]}
    path.write_text(json.dumps(content))
    expected = r"its `set\.train` holds 3 records and its `set\.dev` holds 1 .* `field: set\.train`"
    with pytest.raises(InputError, match=expected):
        found(path)
    assert len(found(path, field="set.train")[0]) == 3
    assert len(found(path, field="set.dev")[0]) == 1
    with pytest.raises(InputError, match=r"no field 'set\.test'; it has about, train, dev"):
        found(path, field="set.test")


@pytest.mark.parametrize("row", ["a, b, c,d", "'a, b','c'", "a"])
def test_a_table_of_which_every_row_is_malformed_names_its_dialect(tmp_path, row):
    (tmp_path / "a.csv").write_text(f"q,r\n{row}\n{row}\n")
    with pytest.raises(InputError, match=r"each of its first 2 rows .* has 2\. .* between ','"):
        found(tmp_path / "a.csv")
    (tmp_path / "a.csv").write_text(f"q,r\n{row}\nWho?,Ada\n")
    assert found(tmp_path / "a.csv")[:2] == ([("Who?", "Ada", "")], {0: "malformed row"})
