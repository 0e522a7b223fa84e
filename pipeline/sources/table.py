"""Read the paper's sources from `table.yaml`, and resolve the sources that a study names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dreamer_study.pipeline.sources.entries import build, read_table, resolve
from dreamer_study.pipeline.sources.source import Source

SOURCES = read_table(Source, Path(__file__).with_name("table.yaml"))


def resolve_source(entry: str | Mapping[str, Any] | Source) -> Source:
    """Return the source that a study's entry means.

    An entry is a name of the table, or a mapping of the fields of `Source`. A mapping without
    `repository` whose name is in the table changes fields of that source. Raises InputError, in one
    line, for unknown names and keys (naming the nearest valid one) and for values that do not fit.
    """
    if isinstance(entry, Source):
        return entry
    if isinstance(entry, Mapping):
        long_names = {"configuration": "configurations"}
        entry = {long_names.get(key, key): value for key, value in entry.items()}
    base, values = resolve(Source, SOURCES, entry)
    return build(Source, base, values)
