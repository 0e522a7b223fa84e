"""Removals judged by eye: the page, and which are drawn."""

from __future__ import annotations

import csv
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dreamer_study.reports.audit.page import audit_page
from dreamer_study.reports.audit.removals import COMPARED, differences
from tests.reports.browser import CHROMIUM, Browser, browser
from tests.waiting import until

COLUMNS = [
    "stage",
    "id",
    "source",
    "reason",
    "because",
    "grade",
    "score",
    "question",
    "response",
    "answer",
    "cause_question",
    "cause_response",
]
ROWS = [
    (
        "deduplicate",
        "a/1",
        "a",
        "near",
        "a/0",
        None,
        0.9,
        "Has <b>Ann</b> 3 pens?",
        "3",
        "",
        "Has Ann?",
        "3",
    ),
    (
        "decontaminate",
        "a/2",
        "a",
        "contaminated_exact",
        "=item/0",
        "exact",
        1.0,
        "Two?",
        "2",
        "",
        "Two?",
        "2",
    ),
    ("clean", "a/3", "a", "broken encoding", None, None, None, "\ufffd", "\ufffd", "", None, None),
]


@pytest.mark.slow
@pytest.mark.skipif(
    not CHROMIUM, reason="no Chromium on this machine: install it to test the page in a browser"
)
def test_removals_are_judged_one_by_one_and_saved(tmp_path: Path) -> None:
    page = tmp_path / "audit.html"
    page.write_text(
        audit_page(
            pd.DataFrame(ROWS, columns=COLUMNS), study_id="tiny-1", chosen="sampled with seed 0"
        )
    )
    with browser() as window:
        opened(window, page)
        assert window.run("cards.map((card) => card.hidden)") == [False, True, True]
        assert window.run(
            "[...cards[0].querySelectorAll('mark')].map((mark) => mark.textContent.trim())"
        ) == [
            "<b>Ann</b> 3 pens?",
            "Ann?",
        ]
        # without a cause there is one side
        assert window.run("cards[2].querySelectorAll('td').length") == 2
        for key in "rkr":
            window.run(f"dispatchEvent(new KeyboardEvent('keydown', {{ key: '{key}' }}))")
        assert "2 of 3 right: precision 67 % (21 to 94 %)" in window.run("progress.textContent")
        # verdicts are kept
        until(lambda: opened(window, page) or "2 of 3 right" in window.run("progress.textContent"))
        window.run("document.getElementById('save').click()")
        saved = window.downloads / "audit.csv"
        until(saved.exists)
        with saved.open(newline="") as file:
            rows = list(csv.DictReader(file))
        asked = [
            e["params"]["request"]["url"]
            for e in window.events
            if e["method"] == "Network.requestWillBeSent"
        ]
    assert [(row["id"], row["because"], row["verdict"]) for row in rows] == [
        ("a/1", "a/0", "remove"),
        ("a/2", "'=item/0", "keep"),  # what a spreadsheet would run
        ("a/3", "", "remove"),
    ]
    assert all(address.startswith(("file:", "data:", "blob:")) for address in asked)


def opened(window: Browser, page: Path) -> None:
    window.send("Page.navigate", url=page.as_uri())
    window.wait(
        "document.readyState === 'complete' && document.getElementById('progress')?.textContent"
    )


texts = st.lists(st.sampled_from(["a", "b,", "3", "4", "<i>", "\n", " ", "x=1"]), max_size=20).map(
    " ".join
)


@pytest.mark.slow
@given(texts, texts)
def test_both_texts_are_whole_and_what_is_not_marked_is_in_both(first, second):
    sides = differences(first, second)
    for text, side in zip((first, second), sides, strict=True):
        assert "".join(piece for piece, _ in side) == text
    ours, theirs = (
        " ".join(piece for piece, differs in side if not differs).split() for side in sides
    )
    assert ours == theirs


def test_an_exchanged_word_is_marked_on_both_sides():
    assert differences("He has 3 pens.", "He has 4 pens.") == (
        [("He has ", False), ("3 ", True), ("pens.", False)],
        [("He has ", False), ("4 ", True), ("pens.", False)],
    )


def test_a_long_text_is_cut_with_the_number_of_characters_that_are_left_out():
    ours, theirs = differences("ab " * COMPARED, "ab")
    assert ours[-1] == (f"… [{2 * COMPARED:,} characters more]", False)
    assert theirs == [("ab", False)]
