r"""Boxed answers, and lists that are written as texts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.sources.columns.answers import as_list, last_boxed


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


def test_lists_in_texts():
    assert as_list("['a', 'b']") == as_list('["a", null, "b", ""]') == ["a", "b"]
    assert as_list("[1, 2.5]") == ["1", "2.5"]
    assert as_list("[a") == ["[a"]
    assert as_list("") == []
