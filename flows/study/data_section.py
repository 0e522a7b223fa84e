"""The section `data` of a study file: sources of documents, their curation, the tokenizer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field, field_validator, model_validator

from dreamer_study.pipeline.clean import CleanSettings
from dreamer_study.pipeline.decontaminate.settings import DecontaminationSettings
from dreamer_study.pipeline.dedup.settings import DedupSettings
from dreamer_study.pipeline.settings import Section
from dreamer_study.pipeline.sources.source import Source
from dreamer_study.pipeline.sources.table import SOURCES, resolve_source
from dreamer_study.pipeline.storage.files import from_home
from dreamer_study.pipeline.storage.parallel import memory_bytes
from dreamer_study.pipeline.worlds.settings import WorldSettings
from dreamer_study.pipeline.worlds.world import WORLD_SOURCES, world_sources

LEAST_MEMORY = 10**8
PAPER = "paper"  # names the paper's fifteen sources in a study file
BUILTIN = "builtin"  # names the built-in world in a study file, as a source and as benchmarks


HomePath = Annotated[Path, AfterValidator(from_home)]


class Tokenizer(Section):
    """The tokenizer: trained on the study's documents, from the hub, or from a file."""

    vocabulary_size: int | None = Field(
        None,
        ge=260,
        description=(
            "Train a byte-level BPE tokenizer with up to this many tokens; beside `hub` or `file`,"
            " the size of that tokenizer."
        ),
    )
    hub: str | None = Field(None, description="Id of a model on the hub that has the tokenizer.")
    revision: str | None = Field(None, description="Commit of that model's repository.")
    file: HomePath | None = Field(None, description="Path of a tokenizer.json.")

    @model_validator(mode="after")
    def _one_origin(self) -> Tokenizer:
        has_hub = self.hub is not None
        has_file = self.file is not None
        trains_one = not has_hub and not has_file and self.vocabulary_size
        # beside an existing tokenizer, vocabulary_size is its size
        if not trains_one and has_hub == has_file:
            raise ValueError(
                "give one of 'vocabulary_size' (train one), 'hub' (an id) or 'file' (a"
                " tokenizer.json)"
            )
        if self.file and not self.file.is_file():
            raise ValueError(f"there is no tokenizer file {self.file}")
        return self


class Data(Section):
    """The sources of the documents, and how they are curated and tokenised."""

    mirror: HomePath | None = Field(
        None, description="Folder of data sets in the hub's layout, read before the hub."
    )
    world: WorldSettings = Field(
        WorldSettings(), description="The built-in problems, for lists that name 'builtin'."
    )
    sources: list[str | dict[str, Any]] = Field(
        min_length=1,
        description=(
            "'builtin', 'paper' (its fifteen sources), names that `dreamer sources` lists, or your"
            " own sources."
        ),
    )
    limit: int | None = Field(None, ge=1, description="Most rows that are read of each source.")
    clean: CleanSettings = Field(
        CleanSettings(), description="Rules that repair a document or drop it."
    )
    deduplicate: DedupSettings = Field(
        DedupSettings(), description="What counts as a duplicate document."
    )
    decontaminate: DecontaminationSettings = Field(
        DecontaminationSettings(), description="What counts as a document with a benchmark item."
    )
    validation: int = Field(
        1000,
        ge=0,
        description=(
            "Documents held out of training, by question, to measure the loss at every checkpoint;"
            " at most 2 % of the curated documents; 0: none."
        ),
    )
    tuning: int = Field(
        0,
        ge=0,
        description="More documents held out by question, to choose settings on; 0: none.",
    )
    seed: int = Field(0, ge=0, description="Seed of the order of the documents.")
    memory: str = Field("4GB", description="Most memory that curation takes, such as 500MB or 4GB.")
    like: str | None = Field(
        None,
        description=(
            "Another study (a preset, its file or folder) whose tokenizer and held-out documents"
            " this one takes, so that both measure the same: `dreamer compare --tokens`."
        ),
    )
    tokenizer: Tokenizer = Field(
        default_factory=lambda: Tokenizer(vocabulary_size=512),
        description="The tokenizer of all models of the study.",
    )

    @field_validator("mirror", mode="before")
    @classmethod
    def _folder(cls, mirror: Any) -> Any:
        if "://" in str(mirror):
            raise ValueError(
                f"a mirror must be a folder; copy {str(mirror).partition('://')[0]}://... to this"
                " machine first"
            )
        return mirror

    @field_validator("memory")
    @classmethod
    def _enough_memory(cls, memory: str) -> str:
        if memory_bytes(memory) < LEAST_MEMORY:
            raise ValueError(f"{memory} is too little for curation; give at least 100MB")
        return memory

    @field_validator("sources")
    @classmethod
    def _known_sources(cls, entries: list[str | dict[str, Any]]) -> list[str | dict[str, Any]]:
        expanded: list[str | dict[str, Any]] = []
        for entry in entries:
            if entry == PAPER:
                expanded += [name for name, source in SOURCES.items() if source.use == "train"]
            else:
                expanded.append(entry)

        names = set()
        for source in _named_sources(expanded):
            if source.name in names:  # the name is part of every document's id
                raise ValueError(
                    f"two sources have the name {source.name!r}; give them different names"
                )
            names.add(source.name)
            if source.use != "train":
                raise ValueError(
                    f"{source.name} is validation text and never trains a model; name it under"
                    " evaluation.benchmarks"
                )
        return expanded

    @model_validator(mode="after")
    def _measures_as_another_study(self) -> Data:
        given = self.model_fields_set & {"tokenizer", "validation"}
        if self.like and given:
            raise ValueError(
                f"like: tokenizer and held-out documents are those of {self.like}; leave out"
                f" {' and '.join(sorted(given))}"
            )
        return self

    @property
    def resolved(self) -> list[Source]:
        """All sources in order; 'builtin' is replaced by the sources of the built-in world."""
        sources: list[Source] = []
        for entry in self.sources:
            if entry == BUILTIN:
                sources += map(resolve_source, world_sources(self.world))
            else:
                sources.append(resolve_source(entry))
        return sources

    def limit_of(self, source: Source) -> int | None:
        """Return the number of rows that are read of a source, the smaller of both limits.

        None means all rows.
        """
        limits = [limit for limit in (self.limit, source.limit) if limit is not None]
        return min(limits, default=None)


def _named_sources(entries: list[str | dict[str, Any]]) -> Iterator[Source]:
    """Yield the sources that entries stand for, including all sources of the built-in world."""
    for entry in entries:
        if entry == BUILTIN:
            yield from map(resolve_source, WORLD_SOURCES.values())
        else:
            yield resolve_source(entry)
