"""Column expressions: what they give, what is refused, and that they see nothing but the
columns."""

from time import process_time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.sources.columns.names import named_columns
from dreamer_study.pipeline.sources.columns.sql import (
    as_list,
    bind,
    evaluate,
    last_boxed,
    parse,
)


def found(expression, **columns):
    table = pa.table(columns)
    return evaluate([bind(expression, table.schema)], table)["0"].to_pylist()


@pytest.mark.parametrize(
    ("expression", "texts"),
    [
        ("body", ["A.", "", None]),
        ("'rank'", ["rank"] * 3),
        ("concat(Body, ' ', question)", ["A. Why?", " How?", " Q"]),
        ("concat_ws(' ', nullif(body, ''), question)", ["A. Why?", "How?", "Q"]),
        ("coalesce(text, body, question)", ["A.", "", "Q"]),
        ("coalesce(text, body) || '!'", ["A.!", "!", None]),
        ("hints", ["a\nb", None, ""]),
        ('lines("a/b")[-1]', ["y", "z", None]),
        ("lines(hints)[1]", ["a", None, None]),
        ("hints[rank::int + 1]", ["b", None, None]),
        ("list_filter(turns, lambda m: m.role = 'assistant')[-1].content", ["yes", None, None]),
        ("list_extract(turns, 1).content", ["no", None, "u"]),
        ("boxed(question) || rank", ["1", "0", "2"]),
        ("columns('ra.k')", ["1", "0", "2"]),
    ],
)
def test_what_expressions_give(expression, texts):
    user, assistant = (
        {"role": role, "content": said} for role, said in (("user", "no"), ("assistant", "yes"))
    )
    columns = {
        "Body": ["A.", "", None],
        "Question": ["Why?", "How?", "Q"],
        "hints": [["a", "b"], None, []],
        "a/b": ["['x', 'y']", "z", "[]"],
        "rank": ["1", "0", "2"],
        "turns": [[user, assistant], None, [{"role": "user", "content": "u"}]],
    }
    assert found(expression, **columns) == texts


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("nope", 'Referenced column "nope" not found'),
        ("coalesce(nope, neither)", 'Referenced column "nope" not found'),
        ("boxd(q)", 'boxd does not exist!; did you mean "boxed"'),
        ("turn", "turn is not text but has the fields role, content; name one of them"),
        ("[turn]", "has the fields role, content; name one of them"),
        ("count(*)", "gives one value for all rows"),
        ("*", "2 columns, where one text is wanted"),
        ("q, q", "is no SQL expression"),
        ("q; select 1", "is no SQL expression"),
        ("q) from x; drop table x; --", "is no SQL expression"),
    ],
)
def test_what_is_refused_with_its_reason(expression, message):
    with pytest.raises(InputError, match=message) as error:
        found(expression, q=["a"], turn=[{"role": "r", "content": "c"}])
    assert "\n" not in str(error.value)


def test_an_expression_reads_no_file_and_changes_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.table({"q": ["secret"]}), "other.parquet")
    # which DuckDB finds by its name, where that is not forbidden
    secret = pa.table({"q": ["secret"]})
    for expression in (
        "(select content from read_text('/etc/passwd'))",
        "(select q from 'other.parquet')",
        "(select q from read_parquet('other.parquet'))",
        "(select q from read_csv('https://example.com/x.csv'))",
        "(select file from glob('*'))",
        "(select q from secret)",
        "getenv('HOME')",
        "copy (select 1) to 'x.csv'",
        "attach 'x.db'",
        "install httpfs",
        "set enable_external_access = true",
        "(select 1 from query('attach ''x.db'''))",
    ):
        with pytest.raises(InputError):
            found(expression, q=["a"])
    assert [path.name for path in tmp_path.iterdir()] == ["other.parquet"]
    assert len(secret) == 1


@pytest.mark.parametrize(
    "sql",
    ["regexp_replace(q, 'a{2}|b', '[1]')", "a || b", "{'a': q}.a", "q[-1]", "a::int / b::int"],
)
def test_expressions_stay_as_they_are_written(sql):
    assert parse(sql) == sql


@pytest.mark.parametrize(
    ("expression", "answer"),
    [
        ("after('work\n#### 1,234', '####')", "1234"),
        ("after('#### 3\nmore\n#### $5.', '####')", "5"),
        ("after('#### 3 apples, 4 pears.\nend', '####')", "3 apples, 4 pears"),
        ("after('no mark', '####')", ""),
        *((f"after('#### 7{end}', '####')", "7") for end in ("<|im_end|>", "</s>", ".<|eot_id|>")),
        ("after('#### 1,234 <|im_end|>\n<|endoftext|>', '####')", "1234"),
        ("after('#### x < 3 | y > 4', '####')", "x < 3 | y > 4"),
        ("option(options, 'a')", "rs . 400"),
        ("option(options, 'b')", "1 , 250"),
        ("option(options, 'c')", "x ( a )"),
        ("option(options, 'e')", "none of these"),
        ("option(options, 'f')", ""),
        ("option(options, '')", ""),
    ],
)
def test_answers_after_marks_and_of_options_with_commas_and_letters(expression, answer):
    options = "a ) rs . 400 , b ) 1 , 250 , c ) x ( a ) , d ) data inadequate , e ) none of these"
    assert found(expression, options=[options]) == [answer]


def test_only_named_columns_are_read():
    names = ["Problem", "solution", "messages", "hints/solutions"]
    columns = pa.schema([(name, pa.string()) for name in names])
    assert named_columns(["problem", 'lines("hints/solutions")'], columns).names == [
        "Problem",
        "hints/solutions",
    ]
    assert named_columns(["columns('.*')"], columns) == columns


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"so \boxed{5}", "5"),
        (r"\boxed{1} then \boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"\boxed{a} and \boxed{cut off", ""),
        (r"\boxed{ }", ""),
        (r"$\boxed 7$", "7"),
        (r"\fbox{x}", "x"),
        (r"\boxed {7}", "7"),
        ("\\boxed\n{7}", "7"),
        (r"\boxed{1} then \boxed {", ""),
        (r"\boxed{1}, as \boxed asks", "asks"),
        (r"\boxed{1}, in \boxed.", "1"),
        (r"\boxed 7<|im_end|>", "7"),
        (r"\boxed{7}</s>", "7"),
        (r"\boxed 7.</s>", "7"),
        (r"no box, \boxing{3}", ""),
        ("", ""),
    ],
)
def test_last_boxed(text, answer):
    assert last_boxed(text) == answer


braces = st.recursive(
    st.text("ab \\frac12", max_size=4),
    lambda inner: inner.map(lambda t: "{" + t + "}"),
    max_leaves=4,
)


@pytest.mark.slow
@given(before=st.text("ab{}\\ ", max_size=20), inside=braces)
def test_a_balanced_box_at_the_end_is_always_found(before, inside):
    content = inside.replace("\\", "")
    assert last_boxed(f"{before} \\boxed{{{content}}}.") == content.strip()


def test_boxes_of_a_model_that_loops_take_no_hours():
    began = process_time()
    assert last_boxed("\\boxed{" * 4_000) == ""
    assert last_boxed("\\boxed{" * 4_000 + "7}") == "7"
    assert process_time() - began < 2


def test_lists_in_texts():
    assert as_list("['a', 'b']") == as_list('["a", null, "b", ""]') == ["a", "b"]
    assert as_list("[1, 2.5]") == ["1", "2.5"]
    assert as_list("[a") == ["[a"]
    assert as_list("") == []
