"""Read the SQL files that define a results file, in their order of creation.

Tables come first. A macro, view or check comes after the ones that its `-- needs:` line names:

    -- needs: accuracy_curve, reaches        (in views/curves/best_accuracy.sql, which creates best_accuracy)
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from graphlib import TopologicalSorter
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
LAYOUT = 10  # of the tables: one more whenever a table or column is added, removed or renamed
NEEDS = re.compile(r"^-- needs: (.+)$", re.MULTILINE)


def definitions() -> dict[str, str]:
    """Return the SQL of every table file, macro, view and check by name, in the order of creation."""
    return _read("tables") | views()


def views() -> dict[str, str]:
    """Return the SQL of every macro, view and check by name, in the order of creation."""
    built = _read("macros", "views", "checks")
    order = TopologicalSorter({name: needs(text) for name, text in built.items()}).static_order()
    return {name: built[name] for name in order}


def digest(texts: Mapping[str, str]) -> str:
    """Hash the definitions, so that a results file made from other ones is recognised."""
    return hashlib.blake2b("\0".join(texts.values()).encode(), digest_size=16).hexdigest()


def needs(text: str) -> list[str]:
    """Return the names in the `-- needs:` line of an SQL file, none without such a line."""
    found = NEEDS.search(text)
    return found[1].split(", ") if found else []


def _read(*folders: str) -> dict[str, str]:
    """Read the SQL files at any depth of the folders, sorted by name."""
    files = [file for folder in folders for file in (FOLDER / folder).rglob("*.sql")]
    return {file.stem: file.read_text() for file in sorted(files, key=lambda file: file.stem)}
