"""List places that a reader goes through twice: `python tests/dense_lines.py [path ...]`.

Four shapes, none of which has a rule in ruff:

* a conditional expression inside another one:      `a if x else b if y else c`
* a conditional expression that a loop runs over:   `for item in (items if wanted else ()):`
* a text times a condition:                         `f", {note}" * bool(note)`
* a list or tuple times a condition:                `[*files] * wanted`

A list times a number that is computed on the spot, such as `[0] * len(rows)`, is none of these.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("pipeline", "model", "flows", "sql", "reports")


def dense_places(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the shape of each dense place of a Python source."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.IfExp) and _holds_conditional(node):
            yield node.lineno, "a conditional inside a conditional"
        if isinstance(node, ast.For | ast.comprehension) and isinstance(node.iter, ast.IfExp):
            yield node.iter.lineno, "a loop over a conditional"
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            yield from _times_condition(node)


def _holds_conditional(conditional: ast.IfExp) -> bool:
    parts = (conditional.test, conditional.body, conditional.orelse)
    return any(isinstance(inner, ast.IfExp) for part in parts for inner in ast.walk(part))


def _times_condition(product: ast.BinOp) -> Iterator[tuple[int, str]]:
    for value, factor in ((product.left, product.right), (product.right, product.left)):
        if _is_text(value) and _may_be_condition(factor):
            yield product.lineno, "a text times a condition"
        if isinstance(value, ast.List | ast.Tuple | ast.ListComp) and _is_condition(factor):
            yield product.lineno, "a list times a condition"


def _is_text(node: ast.expr) -> bool:
    is_constant = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return is_constant or isinstance(node, ast.JoinedStr)


def _is_condition(node: ast.expr) -> bool:
    calls_bool = isinstance(node, ast.Call) and getattr(node.func, "id", "") == "bool"
    denies = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
    return calls_bool or denies or isinstance(node, ast.Compare | ast.BoolOp)


def _may_be_condition(node: ast.expr) -> bool:
    """Whether the factor of a text is a condition, or a name that nobody can tell from one.

    A text is repeated a number of times by a constant, by `len(...)` or by arithmetic.
    """
    return _is_condition(node) or isinstance(node, ast.Name | ast.Attribute)


def python_files(paths: Iterable[str]) -> Iterator[Path]:
    for path in map(Path, paths):
        yield from sorted(path.rglob("*.py")) if path.is_dir() else [path]


def main(paths: list[str]) -> int:
    """Print each place; returns the exit status: 1 where there is any."""
    count = 0
    for path in python_files(paths or [str(ROOT / folder) for folder in FOLDERS]):
        for line, shape in dense_places(path.read_text(encoding="utf-8")):
            print(f"{path}:{line}: {shape}")
            count += 1
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
