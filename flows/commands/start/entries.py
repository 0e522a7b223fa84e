"""Write the entries of a study file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml


def path_from(file: Path, folder: Path) -> str:
    """Write a path relative to a study's folder."""
    file = file.resolve()
    folder = folder.resolve()
    if file.is_relative_to(folder):
        return str(file.relative_to(folder))
    return str(file)


def in_line(value: Any) -> str:
    """Write a value as YAML on one line."""
    text = yaml.safe_dump(
        value, default_flow_style=True, sort_keys=False, allow_unicode=True, width=10_000
    )
    return text.removesuffix("...\n").strip()


def name_of(stem: str) -> str:
    """Make a name for a study or a source of a file's."""
    return re.sub(r"^[^A-Za-z0-9]+|[^\w.-]+", "", stem, flags=re.ASCII) or "mine"
