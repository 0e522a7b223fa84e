"""Decontamination: which documents hold which benchmark items, in which grade, and which are left
alone."""

import random
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dreamer_study.pipeline.decontaminate.decontaminate import decontaminate
from dreamer_study.pipeline.decontaminate.item_index import ItemIndex
from dreamer_study.pipeline.decontaminate.scan import search
from dreamer_study.pipeline.decontaminate.settings import DecontaminationSettings
from tests.pipeline.decontaminate.items import CLIPS, PARTS, PROSE, SHORT, WORDS, item_table
from tests.pipeline.documents import read, table, write


def grades(folder: Path) -> Counter[str]:
    """Count the findings by grade."""
    return Counter(pq.read_table(folder / "out" / "matches.parquet")["grade"].to_pylist())


def run(
    folder: Path,
    rows: list[tuple[str, str]],
    items: pa.Table,
    chosen: DecontaminationSettings | None = None,
) -> tuple[dict[int, tuple[str, str]], dict]:
    """Reason and cause by row of what was dropped, and the stage's results."""
    write(folder / "in", table(rows))
    results = decontaminate(
        folder / "in", folder / "out", items, chosen or DecontaminationSettings()
    )
    dropped = {
        row["row"]: (row["reason"], row["because"]) for row in read(folder / "out", "dropped")
    }
    kept = {row["row"] for row in read(folder / "out")}
    assert kept | set(dropped) == set(range(len(rows)))
    assert not kept & set(dropped)
    return dropped, results


@pytest.mark.parametrize(
    ("question", "response", "reason"),
    [
        (CLIPS, "72", "contaminated_exact"),
        (CLIPS.upper().replace(" ", "\n "), "72", "contaminated_exact"),
        (re.sub(r"(\d+)", r"$\1$", CLIPS).replace("?", ""), "72", "contaminated_exact"),
        (f"Solve this, please. {CLIPS} Think first.", "72", "contaminated_exact"),
        (
            "Help me with homework.",
            f"Here it is: {CLIPS} And the answer is 72.",
            "contaminated_exact",
        ),
        ("", f"A chapter of a book. {CLIPS} The end.", "contaminated_exact"),
        (f"#### Problem 3: {CLIPS}", "72", "contaminated_exact"),
        (
            CLIPS.replace("friends", "neighbours").replace("altogether", "in all"),
            "72",
            "contaminated_overlap",
        ),
        (CLIPS.replace("Natalia", "Maria").replace("clips", "pins"), "72", "contaminated_overlap"),
        ("What does she do?", f"She saves. {PROSE} That is all.", "contaminated_exact"),
        (CLIPS.replace("48", "36").replace("24", "12"), "48", None),
        ("Natalia sold clips to 48 of her friends.", "Good for her.", None),
        (SHORT, "42", "contaminated_exact"),
        ("what is 17+25", "42", "contaminated_exact"),
        (f"Now then: {SHORT} Be quick.", "42", "contaminated_exact"),
        ("Let x be 3. What is 17 + 25x?", "92", None),
        ("What is 17 - 25?", "-8", None),
        ("What is 1725?", "a number", None),
    ],
)
def test_one_document(tmp_path: Path, question: str, response: str, reason: str | None) -> None:
    items = item_table(
        [(CLIPS, "72"), (SHORT, "42"), ("What does Weng do with what she earns?", PROSE)]
    )
    dropped, _ = run(tmp_path, [("An innocent question?", "Yes."), (question, response)], items)
    assert {row: why for row, (why, _) in dropped.items()} == ({1: reason} if reason else {})


def test_other_numbers_are_reported_and_removed_on_demand(tmp_path: Path) -> None:
    rows = [(CLIPS.replace("48", "36").replace("24", "12"), "48"), (CLIPS, "72")]
    dropped, _ = run(tmp_path, rows, item_table([(CLIPS, "72")]))
    assert dropped == {1: ("contaminated_exact", "clips/0")}
    found = pq.read_table(tmp_path / "out" / "matches.parquet").to_pylist()
    assert [(row["id"], row["item"], row["grade"]) for row in found] == [
        ("s/0", "clips/0", "template"),
        ("s/1", "clips/0", "exact"),
    ]
    every = DecontaminationSettings(remove=("exact", "overlap", "template"))
    dropped, _ = run(tmp_path / "all", rows, item_table([(CLIPS, "72")]), every)
    assert dropped[0] == ("contaminated_template", "clips/0")


def test_the_best_of_several_items_is_the_cause(tmp_path: Path) -> None:
    other = CLIPS.replace("April", "June").replace("May", "July")
    items = item_table([(other, ""), (CLIPS, ""), (CLIPS, "")])
    dropped, _ = run(tmp_path, [(CLIPS, "72")], items)
    assert dropped == {0: ("contaminated_exact", "clips/1")}
    assert grades(tmp_path) == {"exact": 2, "overlap": 1}


@pytest.mark.slow
def test_phrases_that_many_documents_share_do_not_count(tmp_path: Path) -> None:
    draw = random.Random(0)
    names, things = (
        ["Ann", "Ben", "Eva", "Tom", "Zoe"],
        ["coins", "cards", "pens", "cups", "books", "balls"],
    )

    def story() -> str:
        name, thing = draw.choice(names), draw.choice(things)
        changes = " ".join(
            f"Then she {draw.choice(['finds', 'buys'])} {draw.randrange(90)} more."
            for _ in range(3)
        )
        return (
            f"{name} has {draw.randrange(90)} {thing}. {changes} How many {thing} does {name} have?"
        )

    stories = list(dict.fromkeys(story() for _ in range(4000)))
    items = stories[:50]
    rows = [(text, "Some.") for text in stories[50:]]
    leaks = [text.swapcase().replace(" ", "  ") for text in items] + [
        f"Tell me: {text} Now." for text in items
    ]
    dropped, results = run(
        tmp_path,
        [*rows, *((text, "Some.") for text in leaks)],
        item_table([(text, "") for text in items]),
    )
    clean = [row for row in dropped if row < len(rows)]
    assert len(clean) <= 0.002 * len(rows)
    assert [row for row in range(len(rows), len(rows) + len(leaks)) if row not in dropped] == []
    assert results["templated_items"] == 50


@pytest.mark.parametrize("copies", [0, 25, 100])
def test_however_often_an_item_leaked_its_edited_copy_is_found(tmp_path: Path, copies: int) -> None:
    draw = random.Random(0)
    common = f"{' '.join(draw.choices(WORDS, k=30))} how many of them"
    items = [CLIPS, f"{common} does Natalia have?"]
    edited = CLIPS.replace("friends", "neighbours").replace("sell altogether", "give away")
    rows = [(edited, "72")]
    rows += [
        (f"{common} {draw.choice(WORDS)}, {' '.join(draw.choices(WORDS, k=20))}?", "Some.")
        for _ in range(50)
    ]
    rows += [(item, " ".join(draw.choices(WORDS, k=60))) for item in items for _ in range(copies)]
    dropped, results = run(tmp_path, rows, item_table([(item, "") for item in items]))
    assert dropped.pop(0) == ("contaminated_overlap", "clips/0")
    # the copies, and none of those that share a common text
    assert sorted(dropped) == list(range(51, len(rows)))
    assert results["templated_items"] == 1


def test_copies_of_an_item_that_begins_like_many_others(tmp_path: Path) -> None:
    draw = random.Random(0)
    opening = "Read the story below with care and then answer the question at the end of it with one number"
    items = [f"{opening}. {' '.join(draw.choices(WORDS, k=40))}?" for _ in range(20)]
    rows = [(reworded(draw, items[0], WORDS), "Some.") for _ in range(100)]
    rows += [(f"{opening}. {' '.join(draw.choices(WORDS, k=40))}?", "Some.") for _ in range(100)]
    dropped, _ = run(tmp_path, rows, item_table([(item, "") for item in items]))
    assert sorted(dropped) == list(range(100))


@pytest.mark.slow
@settings(max_examples=40)
@given(st.lists(st.booleans(), max_size=12))
def test_where_a_leak_stands_decides_nothing_about_the_rest(leaks: list[bool]) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr("dreamer_study.pipeline.storage.documents.BATCH_ROWS", 2)
        rows = [(CLIPS if leak else f"Question {i}, naïve?", "") for i, leak in enumerate(leaks)]
        dropped, results = run(Path(folder), rows, item_table([(CLIPS, "72")]))
        assert sorted(dropped) == [i for i, leak in enumerate(leaks) if leak]
        kept = read(Path(folder) / "out")
        assert [row["row"] for row in kept] == [i for i, leak in enumerate(leaks) if not leak]
        counts = {row["reason"]: (row["documents"], row["characters"]) for row in results["counts"]}
        sizes = {
            "kept": [row["question"] for row in kept],
            "contaminated_exact": [CLIPS] * len(dropped),
        }
        assert counts == {
            reason: (len(texts), sum(map(len, texts))) for reason, texts in sizes.items() if texts
        }


def test_nothing_to_compare(tmp_path: Path) -> None:
    nothing = item_table([])
    dropped, results = run(tmp_path, [("a", "b"), (None, None)], nothing)
    assert dropped == {}
    assert results["items"] == 0
    dropped, results = run(
        tmp_path / "blank", [("a", "b"), ("", "")], item_table([("", ""), (None, None)])
    )
    assert dropped == {}
    assert results["short_items"] == 2
    items, chosen = item_table([(CLIPS, "")]), DecontaminationSettings()
    assert decontaminate(tmp_path / "none", tmp_path / "empty", items, chosen)["counts"] == []


def reworded(draw: random.Random, question: str, words: list[str]) -> str:
    """One word in twelve exchanged, no number."""
    pieces = question.split()
    places = [place for place, piece in enumerate(pieces) if piece.isalpha()]
    for place in draw.sample(places, max(1, len(pieces) // 12)):
        pieces[place] = draw.choice(words)
    return " ".join(pieces)


@pytest.mark.slow
@settings(max_examples=60)
@given(
    st.lists(st.lists(st.sampled_from(PARTS), max_size=4).map(" ".join), max_size=8),
    st.integers(1, 200),
)
def test_what_is_found_in_a_document_does_not_depend_on_the_others(
    questions: list[str], block: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dreamer_study.pipeline.decontaminate.scan.BLOCK_BYTES", block)
        items = item_table([(CLIPS, PROSE), (SHORT, "42"), (CLIPS.replace("Natalia", "Maria"), "")])
        index = ItemIndex(items, DecontaminationSettings())
        index.settle(np.zeros(index.masked.size, np.int64), 20)
        columns = [questions, [PROSE] * len(questions), [""] * len(questions)]
        found = list(search(index, *(pa.array(column, pa.string()) for column in columns)))
        alone = [
            replace(match, document=place)
            for place, question in enumerate(questions)
            for match in search(index, pa.array([question]), pa.array([PROSE]), pa.array([""]))
        ]
    assert found == alone


def test_settings_that_make_no_sense() -> None:
    with pytest.raises(ValueError, match="'exact', 'overlap', 'solution'"):
        DecontaminationSettings(remove=("some",))
    with pytest.raises(ValueError, match="template_coverage"):
        DecontaminationSettings(template_coverage=0.0)
    with pytest.raises(ValueError, match="shortest"):
        replace(DecontaminationSettings(), shortest=3)
