"""Tables as plain data: alignment by the heads, groups, and names from the data."""

from __future__ import annotations

from reports.tables.cells import left, table


def test_cells_are_aligned_as_their_heads_and_groups_are_apart() -> None:
    made = table("t", "Seeds", [left("Run"), "Seed"], [(4, ["a", "0"]), (4, ["b", "1"]), (8, ["c", "0"])])
    assert [[(cell.text, cell.kind, cell.scope) for cell in row.cells] for row in made.rows[:1]] == [
        [("a", "left", "row"), ("0", "", "")]
    ]
    assert [row.first for row in made.rows] == [False, False, True]


def test_a_head_from_the_data_is_text() -> None:
    (head,) = table("t", "", [left("Task"), "<b>"], []).head
    assert [(cell.text, cell.kind) for cell in head] == [("Task", "left"), ("<b>", "")]
