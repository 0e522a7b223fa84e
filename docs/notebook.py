"""Run the cells of docs/notebook.ipynb in an empty folder, and keep what a notebook shows of each.

    python docs/notebook.py

Charts are kept as pictures, which a reader sees without running anything.
"""

from __future__ import annotations

import ast
import base64
import json
from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import altair as alt
import vl_convert

PAGE = Path(__file__).resolve().with_suffix(".ipynb")
PIXELS = 1.0  # of a picture, for a point of the figure


def value_of(source: str, names: dict[str, Any]) -> Any:
    """Run the code of a cell, and return the value of its last line, which a notebook shows."""
    *before, last = ast.parse(source).body
    if not isinstance(last, ast.Expr):
        before.append(last)
    exec(compile(ast.Module(before, []), "<cell>", "exec"), names)
    if isinstance(last, ast.Expr):
        return eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)
    return None


def kept_of(value: Any) -> dict[str, str]:
    """Return what is kept of a value: the picture of a chart, a table, else its text."""
    if isinstance(value, alt.TopLevelMixin):
        picture = vl_convert.vegalite_to_png(value.to_dict(), scale=PIXELS)
        return {"image/png": base64.b64encode(picture).decode()}
    if hasattr(value, "_repr_html_"):
        return {"text/html": value._repr_html_()}
    return {"text/plain": repr(value)}


def run_cells(notebook: dict[str, Any]) -> None:
    """Run the cells of a notebook in the current folder, and put what each shows into it."""
    names: dict[str, Any] = {}
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        value = value_of("".join(cell["source"]), names)
        cell["outputs"] = []
        if value is not None:
            output = {"output_type": "execute_result", "execution_count": None, "metadata": {}}
            cell["outputs"].append(output | {"data": kept_of(value)})


if __name__ == "__main__":
    read = json.loads(PAGE.read_text(encoding="utf-8"))
    with TemporaryDirectory() as folder, chdir(folder):
        run_cells(read)
    PAGE.write_text(json.dumps(read, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
