"""Tables as plain data: alignment by the heads, and groups."""

from __future__ import annotations

from reports.tables.cells import left, table


def test_cells_are_aligned_as_their_heads_and_groups_are_apart() -> None:
    made = table("t", "Seeds", [left("Run"), "Seed"], [(4, ["a", "0"]), (4, ["b", "1"]), (8, ["c", "0"])])
    assert [[(cell.text, cell.kind, cell.scope) for cell in row.cells] for row in made.rows[:1]] == [
        [("a", "left", "row"), ("0", "", "")]
    ]
    assert [row.first for row in made.rows] == [False, False, True]
