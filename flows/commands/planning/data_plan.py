"""Say what a study's data need: a table of the sources, and lines about totals and epochs."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd

from dreamer_study.flows.estimates.data_needs import DataNeeds, Epochs, SizedSource
from dreamer_study.flows.jobs.devices import cores
from dreamer_study.flows.running.curation_warnings import repetition
from dreamer_study.flows.study.configuration import Study
from dreamer_study.reports.text.numbers import counted, figure


def source_table(needs: DataNeeds) -> pd.DataFrame:
    """Build the table of sources."""
    return pd.DataFrame([_row(sized) for sized in needs.sources])


def data_lines(study: Study, needs: DataNeeds) -> dict[str, str]:
    """Say totals, what stages write, epochs and memory, a line each by its name."""
    sizes = [sized.size for sized in needs.sources]
    documents = _total([size.documents for size in sizes], _documents)
    download = _total([size.download for size in sizes])
    text = _total([size.text for size in sizes])
    disk = f"{amount(needs.written)} of disk"
    if any(size.text is None for size in sizes):
        disk += " or more"
    return {
        "data": f"{documents}; {download} to download; {text} of text",
        "stages": f"{disk}; nothing is counted as dropped",
        "epochs": _epochs(needs.epochs),
        "memory": (
            f"at most data.memory = {study.data.memory} at once; {amount(needs.memory)} with a"
            f" process on each of {counted(cores(), 'core')}, as here"
        ),
    }


def _row(sized: SizedSource) -> dict[str, str]:
    size = sized.size
    return {
        "source": sized.source.name,
        "documents": "unknown" if size.documents is None else f"{size.documents:,.0f}",
        "to download": "at hand" if size.download == 0 else amount(size.download),
        "text": amount(size.text),
        "without traces": amount(None if size.text is None else sized.stripped),
    }


def _epochs(epochs: Epochs) -> str:
    """Say how often the training reads its data, with a warning where that is too often."""
    count = figure(epochs.count)
    if epochs.packed:
        said = f"{count} over {epochs.available:,} packed tokens"
    else:
        assumed = " and ".join(f"{bytes_per_token:g}" for bytes_per_token in epochs.assumed)
        estimate = f"about {figure(epochs.available)} tokens, at {assumed} bytes each"
        if epochs.at_least:
            return f"at most {count} over at least {estimate}"
        said = f"about {count} over {estimate}"
    return "; WARNING: ".join([said, *repetition(epochs.trained, epochs.available)])


def amount(count: float | None) -> str:
    """Format a number of bytes: 1.23 GB."""
    if count is None:
        return "unknown"
    for unit in ("B", "kB", "MB", "GB"):
        if count < 999.5:  # more is rounded to a thousand
            return f"{figure(count)} {unit}"
        count /= 1000
    return f"{figure(count)} TB"


def _documents(count: float) -> str:
    return counted(round(count), "document")


def _total(values: list[float | int | None], form: Callable[[float], str] = amount) -> str:
    """Format the sum of the known values, with the number of unknown ones."""
    text = form(sum(value for value in values if value is not None))
    unknown = sum(value is None for value in values)
    if unknown:
        return f"at least {text} ({unknown} of {len(values)} sources unknown)"
    return text
