"""Estimate what a study's data need, stage by stage: documents, downloads, disk, memory and
core-hours.

Sizes come from `pipeline/sources/sizes.py`. Sums leave out sources of unknown size, and are then
"at least".
"""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd

from dreamer_study.flows.commands.planning.time_plan import BYTES_PER_TOKEN
from dreamer_study.flows.jobs.devices import cores
from dreamer_study.flows.plan.study_plan import Plan
from dreamer_study.flows.running.curation import PROCESS_MEMORY
from dreamer_study.flows.running.curation_warnings import repetition
from dreamer_study.flows.study.configuration import Study
from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.sources.repositories.folders import source_files
from dreamer_study.pipeline.sources.sizes import Size, size_of, stripped_text
from dreamer_study.pipeline.sources.source import Source
from dreamer_study.pipeline.storage.parallel import memory_bytes
from dreamer_study.pipeline.worlds.tasks import REPOSITORY

# Megabytes of text that one core processes per second, as measured on rows of reasoning-gym,
# deduplication on a million documents of 830 bytes, decontamination on 500,000 against 23,000 items
# (docs/log.md).
RATES = {
    "documents": 34,
    "traces": 34,
    "clean": 26,
    "deduplicate": 16.7,
    "decontaminate": 36,
    "tokens": 8.2,
}
AFTER_TRACES = ("clean", "deduplicate", "decontaminate", "tokens")
PACKED_ON_DISK = 3  # of Parquet with zstd: text of 1.2 GB takes about 0.4 GB
KEY_BYTES = 50  # of a document's keys on disk: 31 were measured, 49 with keys of questions
# of a document; after curation; of a token
WORLD_BYTES = {"world": (300, 105, 3.3), "sheets": (140, 135, 2.2)}
SIGNED = 0.24  # of the documents get band hashes: the most of any real source so far, reasoning-gym


def data_sizes(study: Study) -> tuple[pd.DataFrame, dict[str, str], float]:
    """Build the table of sources with their sizes, and lines about totals, stages, epochs and
    memory.

    Returns also the bytes that the data stages write where nothing is dropped; sources of unknown
    size count as none. Raises InputError for a file in the mirror that is damaged.
    """
    sources = [_sized(study, source) for source in study.data.resolved]
    rows = [
        {
            "source": source.name,
            "documents": "unknown" if size.documents is None else f"{size.documents:,.0f}",
            "to download": "at hand" if size.download == 0 else amount(size.download),
            "text": amount(size.text),
            "without traces": amount(None if size.text is None else left),
        }
        for source, size, left in sources
    ]
    amounts = _amounts(study, sources)
    hours = sum(
        read / rate / 1e6 / 3600 for rate, (read, _) in zip(RATES.values(), amounts, strict=True)
    )
    sizes, written = [size for _, size, _ in sources], sum(disk for _, disk in amounts)
    memory, needed = memory_bytes(study.data.memory), cores() * PROCESS_MEMORY
    lines = {
        "data": (
            f"{_total([s.documents for s in sizes], '{:,.0f}'.format)} documents, "
            f"{_total([s.download for s in sizes])} to download, "
            f"{_total([s.text for s in sizes])} of text"
        ),
        "stages": (
            f"{hours:,.3g} core-hours, {amount(written)} of"
            f" disk{' or more' if any(s.text is None for s in sizes) else ''}; nothing is counted"
            " as dropped"
        ),
        "epochs": _epochs(study, sources),
        "memory": (
            f"at most data.memory = {study.data.memory} at once; "
            f"{amount(min(memory, needed))} with a process on each of {cores()} cores, as here"
        ),
    }
    return pd.DataFrame(rows), lines, written


def _epochs(study: Study, sources: list[tuple[Source, Size, float]]) -> str:
    """Say how often the training reads its data: by the packed tokens where they are there, else
    estimated.

    An epoch is all rows once. Tokens count without padding, in the rows as in the training, and
    with any `loss_on`.
    """
    tokens = study.training.tokens
    try:
        packed = Plan(study).data.packed.results["tokens"]
        return "; WARNING: ".join(
            [f"{tokens / packed:,.3g} over {packed:,} packed tokens", *repetition(tokens, packed)]
        )
    except InputError:
        pass
    built_in = {name: rate for name, (_, _, rate) in WORLD_BYTES.items()}
    rates = [built_in.get(source.name, BYTES_PER_TOKEN) for source, _, _ in sources]
    found = sum(
        source.weight * left / rate for (source, _, left), rate in zip(sources, rates, strict=True)
    )
    known = (
        f"about {found:,.3g} tokens, at {' and '.join(f'{rate:g}' for rate in sorted(set(rates)))}"
        " bytes each"
    )
    if any(size.text is None for _, size, _ in sources):
        return f"at most {tokens / max(found, 1):,.3g} over at least {known}"
    return "; WARNING: ".join(
        [f"about {tokens / max(found, 1):,.3g} over {known}", *repetition(tokens, found)]
    )


def _amounts(study: Study, sources: list[tuple[Source, Size, float]]) -> list[tuple[float, float]]:
    """List the bytes that each stage of RATES reads, and those it writes; signatures belong to
    deduplication."""
    text, stripped = (
        sum(size.text or 0 for _, size, _ in sources),
        sum(left for _, _, left in sources),
    )
    each = 2 if (study.data.tokenizer.vocabulary_size or 0) <= 2**16 else 4
    signing, found = study.data.deduplicate.signing, []
    signed = (SIGNED if signing.numbers else 1) if signing.near else 0
    signatures = sum(size.documents or 0 for _, size, _ in sources) * (
        KEY_BYTES + signed * 8 * (1 + signing.bands)
    )
    for stage in RATES:
        read = stripped if stage in AFTER_TRACES else text
        written = text if stage == "documents" else stripped
        disk = stripped / BYTES_PER_TOKEN * each if stage == "tokens" else written / PACKED_ON_DISK
        found.append((read, disk + signatures if stage == "deduplicate" else disk))
    return found


def _sized(study: Study, source: Source) -> tuple[Source, Size, float]:
    """Find a source's size, after the row limits of the source and of the study, and its bytes
    without traces.

    For the built-in world the bytes without traces are those that curation keeps.
    """
    if source.repository == REPOSITORY:
        stories, whole = study.data.world.documents_of_stories, study.data.world.documents
        documents = stories if source.name == "world" else whole - stories
        text, kept, _ = WORLD_BYTES[source.name]
        return source, Size(documents, 0, documents * text), documents * kept
    folder = Plan(study).find(source)
    size = size_of(source, source_files(source, folder) if folder else [])
    limit = study.data.limit_of(source)
    if limit is not None and size.documents is not None and size.documents > limit:
        text = None if size.text is None else size.text * limit / size.documents
        size = Size(limit, size.download, text)
    return source, size, stripped_text(source, size.text or 0)


def amount(count: float | None) -> str:
    """Format a number of bytes: 1.23 GB."""
    if count is None:
        return "unknown"
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


def _total(values: list[float | int | None], form: Callable[[float], str] = amount) -> str:
    """Format the sum of the known values, with the number of unknown ones."""
    text = form(sum(value for value in values if value is not None))
    unknown = sum(value is None for value in values)
    return f"at least {text} ({unknown} of {len(values)} sources unknown)" if unknown else text
