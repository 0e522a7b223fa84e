r"""Column expressions: parsing, \boxed and other short answers, lists that may be text."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import InputError
from pipeline.sources.columns.expressions import after, as_list, as_text, last_boxed, option, parse
from pipeline.sources.columns.paths import root, steps


def evaluate(expression, **columns):
    table = pa.table(columns)
    return parse(expression).bind(table.column_names.__contains__).evaluate(table).to_pylist()


def test_templates_lists_and_alternatives():
    columns = {"Body": ["A.", "", "B"], "Question": ["Why?", "How?", None]}
    assert evaluate("{Body} {Question}", **columns) == ["A. Why?", " How?", "B "]
    assert evaluate(["Body", "Question"], **columns) == ["A. Why?", "How?", "B"]
    assert evaluate("Text | Body", **columns) == ["A.", "", "B"]
    assert evaluate("{Text | Body}!", **columns) == ["A.!", "!", "B!"]


def test_a_list_column_reads_line_by_line():
    assert evaluate("hints", hints=[["a", "b"], None, []]) == ["a\nb", None, ""]


def test_a_column_whose_name_looks_like_a_path_wins():
    assert root("a.b", ["a", "a.b"]) == "a.b"
    assert root("a.b", ["a"]) == "a"
    assert root("a.b", ["b"]) is None


def test_paths_are_read_as_steps():
    assert steps("conversations[-1].value") == ["conversations", -1, "value"]
    assert steps("responses[*].response") == ["responses", None, "response"]
    assert steps("hints/solutions") == ["hints/solutions"]
    for bad in ("", "[0]", "a[", "a[x]", "a[*].b[*]"):
        with pytest.raises(InputError):
            steps(bad)


@pytest.mark.parametrize("bad", ["after(answer)", "after(answer, ####)", "choice(a)", "boxed(a, b)", "{a", [], [1]])
def test_what_is_no_expression_is_refused(bad):
    with pytest.raises(InputError, match="column expression"):
        parse(bad)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"so \boxed{5}", "5"),
        (r"\boxed{1} then \boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"\boxed{a} and \boxed{cut off", "a"),
        (r"\boxed{ }", ""),
        (r"$\boxed 7$", "7"),
        (r"\fbox{x}", "x"),
        (r"no box, \boxing{3}", ""),
        ("", ""),
    ],
)
def test_last_boxed(text, answer):
    assert last_boxed(text) == answer


braces = st.recursive(
    st.text("ab \\frac12", max_size=4), lambda inner: inner.map(lambda t: "{" + t + "}"), max_leaves=4
)


@given(before=st.text("ab{}\\ ", max_size=20), inside=braces)
def test_a_balanced_box_at_the_end_is_always_found(before, inside):
    content = inside.replace("\\", "")
    assert last_boxed(f"{before} \\boxed{{{content}}}.") == content.strip()


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("work\n#### 1,234", "1234"),
        ("#### 3\nmore\n#### $5.", "5"),
        ("#### 3 apples, 4 pears.\nend", "3 apples, 4 pears"),
        ("no mark", ""),
    ],
)
def test_after(text, answer):
    assert after(text, "####") == answer


@pytest.mark.parametrize(
    ("letter", "answer"),
    [("a", "rs . 400"), ("b", "1 , 250"), ("c", "x ( a )"), ("e", "none of these"), ("f", ""), ("", "")],
)
def test_an_option_may_hold_commas_and_letters(letter, answer):
    options = "a ) rs . 400 , b ) 1 , 250 , c ) x ( a ) , d ) data inadequate , e ) none of these"
    assert option(options, letter) == answer


def test_choices_by_position():
    columns = {"choices": [["0", "4"], ["x"], None], "answer": ["1", "3", "0"]}
    assert evaluate("choice(choices, answer)", **columns) == ["4", "", ""]


def test_values_as_text():
    assert [as_text(v) for v in (51.0, 0.5, 3, True, None, ["a", 1], {"a": 1})] == [
        "51",
        "0.5",
        "3",
        "true",
        None,
        "a\n1",
        None,
    ]
    assert as_list("['a', 'b']") == as_list('["a", "b"]') == as_list(["a", None, "b", ""]) == ["a", "b"]
    assert as_list("[a") == ["[a"]
    assert as_list(None) == []
