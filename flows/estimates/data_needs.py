"""Estimate the needs of a study's data: documents, downloads, disk, memory and epochs.

Sizes come from `pipeline/sources/sizes.py`. Sums leave out sources of unknown size, and are then
called "at least".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dreamer_study.flows.jobs.devices import cores
from dreamer_study.flows.plan.study_plan import Plan
from dreamer_study.flows.running.benchmark_cards import BYTES_PER_TOKEN
from dreamer_study.flows.running.curation import PROCESS_MEMORY
from dreamer_study.flows.study.configuration import Study
from dreamer_study.model.training.recipe import branch_tokens
from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.sources.repositories.folders import source_files
from dreamer_study.pipeline.sources.sizes import Size, size_of, stripped_text
from dreamer_study.pipeline.sources.source import Source
from dreamer_study.pipeline.storage.parallel import memory_bytes
from dreamer_study.pipeline.worlds.tasks import REPOSITORY

# The stages that write outputs of the size of the text, in their order.
STAGES = ("documents", "traces", "clean", "deduplicate", "decontaminate", "tokens")
PACKED_ON_DISK = 3  # of Parquet with zstd: text of 1.2 GB takes about 0.4 GB
KEY_BYTES = 50  # of a document's keys on disk: 31 were measured, 49 with keys of questions
# bytes of a document of the built-in world, of what curation keeps of it, and of a token
WORLD_BYTES = {"world": (300, 105, 3.3), "sheets": (140, 135, 2.2)}
# the share of the documents that get band hashes: the most of any real source, reasoning-gym
SIGNED = 0.24


@dataclass(frozen=True)
class SizedSource:
    """A source with its size after all limits of rows, and its bytes without reasoning traces."""

    source: Source
    size: Size
    stripped: float


@dataclass(frozen=True)
class Epochs:
    """How often a training reads its data: `trained` tokens over `available` tokens.

    One epoch reads every row once. Padding does not count, and `loss_on` changes nothing. If the
    tokens are not `packed` yet, they are estimated at `assumed` bytes each. `at_least` says that
    sources of unknown size are left out.
    """

    trained: int
    available: float
    packed: bool
    assumed: tuple[float, ...] = ()
    at_least: bool = False

    @property
    def count(self) -> float:
        """The number of epochs."""
        return self.trained / max(self.available, 1)


@dataclass(frozen=True)
class DataNeeds:
    """The needs of a study's data.

    `written` is the number of bytes that the data stages write if nothing is dropped; sources of
    unknown size count as 0. `memory` is the most bytes that the processes, one for each core, take.
    """

    sources: tuple[SizedSource, ...]
    written: float
    epochs: Epochs
    memory: float


def data_needs(study: Study) -> DataNeeds:
    """Return the sizes of the sources, and the bytes, epochs and memory that follow from them.

    Raises InputError for a damaged file in the mirror.
    """
    sources = tuple(_sized(study, source) for source in study.data.resolved)
    return DataNeeds(
        sources=sources,
        written=sum(_bytes_written(study, sources).values()),
        epochs=_epochs(study, sources),
        memory=min(memory_bytes(study.data.memory), cores() * PROCESS_MEMORY),
    )


def _epochs(study: Study, sources: Sequence[SizedSource]) -> Epochs:
    """Count epochs from the packed tokens, or an estimate of them."""
    tokens = study.training.tokens
    tokens += branch_tokens(study.training.branches, tokens)  # the last branch reads on
    packed = _packed_tokens(study)
    if packed is not None:
        return Epochs(tokens, packed, packed=True)
    built_in = {name: bytes_per_token for name, (_, _, bytes_per_token) in WORLD_BYTES.items()}
    by_source = [built_in.get(sized.source.name, BYTES_PER_TOKEN) for sized in sources]
    available = sum(
        sized.source.weight * sized.stripped / bytes_per_token
        for sized, bytes_per_token in zip(sources, by_source, strict=True)
    )
    return Epochs(
        trained=tokens,
        available=available,
        packed=False,
        assumed=tuple(sorted(set(by_source))),
        at_least=any(sized.size.text is None for sized in sources),
    )


def _packed_tokens(study: Study) -> int | None:
    try:
        return Plan(study).data.packed.results["tokens"]
    except InputError:
        return None  # the data are still to be packed


def _bytes_written(study: Study, sources: Sequence[SizedSource]) -> dict[str, float]:
    """Estimate the bytes that each of STAGES writes; signatures belong to deduplication."""
    text = sum(sized.size.text or 0 for sized in sources)
    stripped = sum(sized.stripped for sized in sources)
    written = dict.fromkeys(STAGES, stripped / PACKED_ON_DISK)
    written["documents"] = text / PACKED_ON_DISK
    written["deduplicate"] += _signature_bytes(study, sources)
    small_vocabulary = (study.data.tokenizer.vocabulary_size or 0) <= 2**16
    bytes_of_token = 2 if small_vocabulary else 4  # uint16, or uint32
    written["tokens"] = stripped / BYTES_PER_TOKEN * bytes_of_token
    return written


def _signature_bytes(study: Study, sources: Sequence[SizedSource]) -> float:
    """Estimate the bytes of the keys and of the band hashes of all documents."""
    documents = sum(sized.size.documents or 0 for sized in sources)
    signing = study.data.deduplicate.signing
    signed = 0.0  # the share of the documents that get band hashes
    if signing.near:
        signed = SIGNED if signing.numbers else 1.0
    # of each document that is signed its place and the hashes of its bands, 8 bytes each
    return documents * (KEY_BYTES + signed * 8 * (1 + signing.bands))


def _sized(study: Study, source: Source) -> SizedSource:
    """Return the size of a source after the row limits of the source and of the study.

    For the built-in world, the bytes without traces are the bytes that curation keeps.
    """
    if source.repository == REPOSITORY:
        world = study.data.world
        stories = world.documents_of_stories
        documents = stories if source.name == "world" else world.documents - stories
        text, kept, _ = WORLD_BYTES[source.name]
        return SizedSource(source, Size(documents, 0, documents * text), documents * kept)
    folder = Plan(study).find(source)
    size = size_of(source, source_files(source, folder) if folder else [])
    limit = study.data.limit_of(source)
    if limit is not None and size.documents is not None and size.documents > limit:
        limited_text = None if size.text is None else size.text * limit / size.documents
        size = Size(limit, size.download, limited_text)
    return SizedSource(source, size, stripped_text(source, size.text or 0))
