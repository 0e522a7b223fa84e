"""Cleaning; and stages that are interrupted go on where they were."""

import doctest
import json
import re
import unicodedata
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dreamer_study.pipeline
from dreamer_study.pipeline.clean import CleanSettings, clean
from dreamer_study.pipeline.sources.read import read_source
from dreamer_study.pipeline.sources.table import resolve_source
from dreamer_study.pipeline.storage.documents import DocumentWriter, read_documents, shards
from dreamer_study.pipeline.traces.strip_source import strip_traces
from tests.pipeline.documents import read, table, write

OFF = CleanSettings(
    **{name: False if value is True else None for name, value in vars(CleanSettings()).items()}
)


def run(folder, responses, settings=None, questions=None):
    """Responses kept, (reason, response) of those dropped, and the counts of mended documents."""
    write(
        folder / "in",
        table(zip(questions or ["What is it?"] * len(responses), responses, strict=True)),
    )
    result = clean(folder / "in", folder / "out", settings)
    kept = [row["response"] for row in read(folder / "out")]
    dropped = [(row["reason"], row["response"]) for row in read(folder / "out", "dropped")]
    return kept, dropped, {row["rule"]: row["documents"] for row in result["mended"]}


MATHEMATICS = [
    "x² + ½ ≤ ∑ₖ 𝔼[X] ⊗ ℝⁿ, ﬁnally ①",
    "\\frac{1}{2} \\text{ and } \\boxed{3}",
    "if x < 5:\n\treturn x",
    "π ≈ 3.14159, 45° and 6′",
    "Ich heiße Zoë, naïve façade, Ångström",
    "решение: x = 2",
    "答案是二",
    "x" * 999,
    # one broken character in a long text is forgiven
    " ".join(f"word {i}" for i in range(300)) + "\ufffd",
]


def test_mathematics_and_other_languages_are_left_as_they_are(tmp_path):
    assert run(tmp_path, MATHEMATICS) == (MATHEMATICS, [], {})


def test_mending_is_counted_and_each_rule_can_be_switched_off(tmp_path):
    responses = ["cafe\u0301 is open", "a\u200bb\x00c\r\nd\re", "  spaced  ", "fine"]
    kept, _, mended = run(tmp_path / "on", responses)
    assert kept == ["café is open", "abc\nd\ne", "spaced", "fine"]
    assert mended == {"compose_unicode": 1, "remove_controls": 1, "trim": 1}
    assert run(tmp_path / "off", responses, OFF) == (responses, [], {})


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        ("", "response too short"),
        ("word " * 40_001, "response too long"),
        ("a \ufffd\ufffd b", "broken encoding"),
        ("Itâ€™s the cafÃ© at 5Â°", "mojibake"),
        ("â\x80\x99 and â\x80\x99", "mojibake"),
        ("data: " + "QUJD" * 300, "not text: endless word"),
        ("=-=-" * 20, "not text: symbols"),
    ],
)
def test_dropping_names_the_rule(tmp_path, response, reason):
    kept, dropped, _ = run(tmp_path / "on", [response, "fine"])
    assert kept == ["fine"]
    assert dropped == [(reason, response)]
    kept, dropped, _ = run(tmp_path / "off", [response], OFF)
    assert (kept, dropped) == ([response], [])


def test_bounds_on_questions_spare_plain_text(tmp_path):
    questions = ["", "a?", "x " * 20_000, "fine?", "\u200b"]
    kept, dropped, _ = run(tmp_path, ["text", "b", "c", "d\x0c\x0bd", "e"], questions=questions)
    assert kept == ["text", "d\n\nd"]
    assert dropped == [
        ("question too short", "b"),
        ("question too long", "c"),
        ("question too short", "e"),
    ]


texts = st.lists(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20), min_size=1, max_size=6
)


@pytest.mark.slow
@settings(max_examples=40)
@given(responses=texts)
def test_vectorised_rules_agree_with_pythons_own(tmp_path_factory, responses):
    folder = tmp_path_factory.mktemp("clean")
    rules = CleanSettings(**{**vars(OFF), "compose_unicode": True, "longest_run": 3, "trim": True})
    kept, dropped, _ = run(folder, responses, rules, [""] * len(responses))

    def longest(text):
        return max(
            map(len, "".join(c if "!" <= c <= "~" else " " for c in text).split()), default=0
        )

    composed = [unicodedata.normalize("NFC", text).strip() for text in responses]
    assert kept == [text for text in composed if longest(text) <= 3]
    assert len(kept) + len(dropped) == len(responses)


@pytest.mark.parametrize(
    "bad", [{"mojibake": 2}, {"letters": -0.1}, {"longest_run": -1}, {"shortest_question": -5}]
)
def test_bad_settings_are_refused(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        CleanSettings(**bad)


def test_endless_combining_marks_take_no_time_and_are_dropped(tmp_path):
    written = "a" + "\u0301\u0316" * 15  # 30 marks, as Unicode allows a text
    endless = "a" + "\u0301\u0316" * 99_000
    kept, dropped, _ = run(tmp_path, [written, endless], OFF)
    assert dropped == [("endless combining marks", endless)]
    kept, dropped, mended = run(tmp_path / "on", [written, endless])
    assert kept == [unicodedata.normalize("NFC", written)]
    assert mended == {"compose_unicode": 1}
    assert [reason for reason, _ in dropped] == ["endless combining marks"]


def test_a_response_that_loops_at_its_end_is_dropped(tmp_path):
    loops = ["We begin. " + "We add 3 and 4 to get 7. " * 80, "So we have $" + "\\right) " * 300]
    steps = " ".join(
        f"Step {i}: {i} times {i + 7} is {i * (i + 7)}, so add {i * i} to it." for i in range(60)
    )
    short = "na " * 300
    kept, dropped, _ = run(tmp_path / "on", [*loops, steps, short])
    assert (kept, {reason for reason, _ in dropped}, len(dropped)) == (
        [steps, short.strip()],
        {"looping text"},
        2,
    )
    assert run(tmp_path / "off", [*loops, steps, short], OFF)[0] == [*loops, steps, short]


FILES = 4
SOURCE = resolve_source({"name": "s", "repository": "o/s", "question": "q", "response": "r"})


class Killed(BaseException):
    """Stands for a signal: nothing in the stages catches it."""


def written(folder: Path) -> list[dict[str, Any]]:
    return read(folder) + read(folder, "dropped")


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    paths = []
    for number in range(FILES):
        rows = [
            {
                "q": f"question {number} {i}",
                "r": f"<think>so</think>\u200bIt is {i}." if i % 5 else "",
            }
            for i in range(50)
        ]
        paths.append(tmp_path / f"train-{number}.jsonl")
        paths[-1].write_text("\n".join(map(json.dumps, rows)) + "\nnot json\n")
    return paths


def stage(name: str, files: list[Path], folder: Path) -> Callable[..., dict[str, Any]]:
    if name == "read":
        return partial(read_source, SOURCE, files)
    read_source(SOURCE, files, folder / "read")
    with DocumentWriter(folder / "in", shard_bytes=1) as writer:
        for batch in read_documents(folder / "read", batch_rows=50):
            writer.keep(batch)
    return partial({"traces": strip_traces, "clean": clean}[name], folder / "in")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["read", "traces", "clean"])
def test_an_interrupted_stage_goes_on_where_it_was(
    name: str, files: list[Path], tmp_path: Path
) -> None:
    work = stage(name, files, tmp_path)
    whole = work(tmp_path / "whole")

    def until_half(done: float, words: str) -> None:
        if done >= 0.5:
            raise Killed

    output = tmp_path / "half"
    with pytest.raises(Killed):
        work(output, progress=until_half)
    # is complete, and stays the very file
    first = sorted([*shards(output), *shards(output, "dropped")])[0]
    before = first.stat().st_ino
    assert work(output) == whole
    assert first.stat().st_ino == before
    assert written(output) == written(tmp_path / "whole")
    names = [
        path.relative_to(tmp_path / "whole") for path in sorted((tmp_path / "whole").rglob("*"))
    ]
    assert names == [path.relative_to(output) for path in sorted(output.rglob("*"))]


def test_parts_of_other_files_are_not_used(files: list[Path], tmp_path: Path) -> None:
    def at_once(done: float, words: str) -> None:
        if done > 0.3:
            raise Killed

    with pytest.raises(Killed):
        read_source(SOURCE, files, tmp_path / "out", progress=at_once)
    result = read_source(SOURCE, files[1:], tmp_path / "out")
    assert result["rows"] == 51 * (FILES - 1)
    assert written(tmp_path / "out")[0]["question"] == "question 1 1"


ROOT = Path(dreamer_study.pipeline.__path__[0])
MODULES = [
    path.relative_to(ROOT)
    for path in sorted(ROOT.rglob("*.py"))
    if re.search(r"^ *>>> ", path.read_text(), re.MULTILINE)
]


@pytest.mark.parametrize("path", MODULES, ids=str)
def test_examples(path: Path) -> None:
    name = ".".join(["dreamer_study", "pipeline", *path.with_suffix("").parts])
    result = doctest.testmod(import_module(name))
    assert result.attempted
    assert not result.failed
