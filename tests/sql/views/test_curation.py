"""What stages keep and drop, over all sources and for each."""

from __future__ import annotations

import pytest

from tests.sql.by_hand import put


def curate(sql, rows):
    names = ("source", "stage", "reason", "documents", "tokens")
    put(sql, "curation", [{"study_id": "s"} | dict(zip(names, row, strict=True)) for row in rows])


def test_funnel_follows_the_pipeline(sql):
    curate(
        sql,
        [
            ("a", "deduplicate", "kept", 6, None),
            ("a", "deduplicate", "near duplicate", 3, None),
            ("b", "deduplicate", "kept", 5, None),
            ("a", "documents", "kept", 10, None),
            ("b", "documents", "kept", 10, None),
            ("a", "clean", "kept", 9, None),
            ("a", "clean", "too short", 1, None),
            ("b", "clean", "kept", 5, None),
            ("b", "clean", "too short", 1, None),
            ("b", "clean", "not text", 4, None),
            ("a", "tokens", "kept", 6, 20),
            ("b", "tokens", "kept", 5, 15),
        ],
    )
    assert sql.execute("select * exclude (study_id, characters_kept) from funnel").fetchall() == [
        ("documents", 20, 20, 0, 1.0, 1.0, None, None),
        ("clean", 20, 14, 6, 0.7, 0.7, None, "not text 4, too short 2"),
        ("deduplicate", 14, 11, 3, pytest.approx(11 / 14), 0.55, None, "near duplicate 3"),
        ("tokens", 11, 11, 0, 1.0, 0.55, 35, None),
    ]
    by_source = sql.execute("select source, stage, documents, kept, reasons from funnel_by_source").fetchall()
    assert by_source[1] == ("a", "clean", 10, 9, "too short 1")
    assert by_source[5] == ("b", "clean", 10, 5, "not text 4, too short 1")


def test_funnels_tell_responses_that_lack_the_marks_of_their_source(sql):
    curate(sql, [("a", "traces", "kept", 7, None), ("a", "traces", "trace never closed", 1, None),
                 ("b", "traces", "kept", 5, None), ("b", "clean", "kept", 5, None)])  # fmt: skip
    put(sql, "sources", [{"study_id": "s", "source": name, "unmarked": n} for name, n in (("a", 2), ("b", 0))])
    by_source = sql.execute("select source, stage, kept, reasons from funnel_by_source").fetchall()
    assert by_source == [
        ("a", "traces", 7, "trace never closed 1, kept without marks 2"),
        ("b", "traces", 5, None),
        ("b", "clean", 5, None),
    ]
    assert sql.execute("select kept, reasons from funnel where stage = 'traces'").fetchall() == [
        (12, "trace never closed 1, kept without marks 2")
    ]


def test_funnel_puts_unknown_stages_last_by_size(sql):
    stages = {"judge": 5, "filter": 7, "documents": 9, "empty": None}
    curate(sql, [("a", stage, "kept", documents, None) for stage, documents in stages.items()])
    found = [row[0] for row in sql.execute("select stage from funnel").fetchall()]
    assert found == ["documents", "filter", "judge", "empty"]


def test_the_data_sets_of_a_study_have_licences_documents_and_tokens(sql):
    rows = [("a", "documents", "kept", 9, None), ("a", "documents", "empty", 1, None), ("a", "tokens", "kept", 6, 30)]
    rows.append(("b", "tokens", "kept", 2, 10))
    names = ("source", "stage", "reason", "documents", "tokens")
    put(sql, "curation", [{"study_id": "s", **dict(zip(names, row, strict=True))} for row in rows])
    commits = {"revision": "c0f", "commit": "c0ffee"}
    put(sql, "sources", [{"study_id": "s", "source": "a", "repository": "o/a", "licence": "mit", **commits}])
    columns = "source, revision, licence, documents_read, documents, tokens, share_of_tokens"
    assert sql.execute(f"select {columns} from table_4").fetchall() == [
        ("a", "c0ffee", "mit", 10, 6, 30, 0.75),
        ("b", None, None, None, 2, 10, 0.25),
    ]
