"""The product has no place of the shapes that `dense_lines` knows, and each shape is known."""

from __future__ import annotations

import pytest

from tests.dense_lines import FOLDERS, ROOT, dense_places


@pytest.mark.parametrize(
    "source",
    [
        "x = a if b else c if d else e",
        "x = a if (b if c else d) else e",
        "for item in items if wanted else ():\n    pass",
        "x = [item for item in (items if wanted else ())]",
        "x = f', {note}' * bool(note)",
        "x = 'now' * (a > b)",
        "x = 'now' * wanted",
        "x = 'now' * options.wanted",
        "x = not_wanted * 'now'",
        "x = [a, b] * (not c)",
        "x = [*files] * (a and b)",
    ],
)
def test_a_dense_shape_is_found(source: str) -> None:
    assert len(list(dense_places(source))) == 1


@pytest.mark.parametrize(
    "source", ["x = a if b else c", "x = ' ' * 4", "x = [0] * len(rows)", "x = '-' * len(title)"]
)
def test_a_plain_shape_is_not(source: str) -> None:
    assert not list(dense_places(source))


@pytest.mark.slow
@pytest.mark.parametrize("folder", FOLDERS)
def test_no_file_has_a_dense_place(folder: str) -> None:
    places = [
        f"{path.relative_to(ROOT)}:{line}: {shape}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for line, shape in dense_places(path.read_text(encoding="utf-8"))
    ]
    assert places == []
