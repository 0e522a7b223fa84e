"""A source names marks of its own."""

import pytest

from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.sources.table import resolve_source
from dreamer_study.pipeline.traces.strip_source import strip_traces
from tests.pipeline.documents import read, table, write

SOURCE = {"name": "a", "files": "a.jsonl", "question": "q", "response": "r"}


@pytest.mark.parametrize(
    "given",
    [
        ["<plan>", "</plan>"],
        [["<plan>", "</plan>"]],
        [["Plan:", "Solution:"], ["<plan>", "</plan>"]],
    ],
)
def test_one_pair_or_several_are_given_and_stripped(tmp_path, given):
    source = resolve_source({**SOURCE, "trace_marks": given})
    write(tmp_path / "in", table([("q", "<PLAN>hm</PLAN>4"), ("q", "4"), ("q", "<plan>hm")], "a"))
    result = strip_traces(tmp_path / "in", tmp_path / "out", marks=source.trace_marks)
    assert [row["response"] for row in read(tmp_path / "out")] == ["4", "4"]
    assert [row["id"] for row in read(tmp_path / "out", "dropped")] == ["a/2"]
    assert result["marks"] == []


def test_without_them_such_marks_stay_and_are_counted(tmp_path):
    assert resolve_source(SOURCE).trace_marks == ()
    write(tmp_path / "in", table([("q", "<PLAN>hm</PLAN>4"), ("q", "<plan>a</plan>4")], "a"))
    result = strip_traces(tmp_path / "in", tmp_path / "out")
    assert len(read(tmp_path / "out")) == 2
    assert result["marks"] == [{"source": "a", "mark": "<plan>", "documents": 2}]


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("<plan>", "trace_marks"),
        (["<plan>"], "trace_marks"),
        ([["<plan>", "</plan>", "<x>"]], "trace_marks"),
        ([["<plan>", 4]], "trace_marks"),
        ([["<plan>", " "]], "one is blank"),
        (["", "</plan>"], "one is blank"),
        (["---", "---"], "both the opening and the closing mark"),
        (["<p>", "<P>"], "both the opening and the closing mark"),
    ],
)
def test_what_is_no_pair_of_marks_is_refused_in_one_line(given, problem):
    with pytest.raises(InputError, match=problem) as error:
        resolve_source({**SOURCE, "trace_marks": given})
    assert "\n" not in str(error.value)
    assert "source 'a'" in str(error.value)
