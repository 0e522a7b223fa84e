"""Plan the data of a study: every output from its sources to the packed tokens, with its key and
its folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from dreamer_study.flows.progress.reports import write_line
from dreamer_study.flows.study.configuration import Study
from dreamer_study.flows.study.data_section import BUILTIN
from dreamer_study.pipeline.benchmarks.benchmark import Benchmark
from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.sources.repositories.folders import (
    folder_of,
    resolved_revision,
    source_files,
)
from dreamer_study.pipeline.sources.repositories.splits import find_split, has_splits
from dreamer_study.pipeline.sources.source import Source
from dreamer_study.pipeline.storage.store import Output, Store
from dreamer_study.pipeline.tokens.funnel import EXACT_CHARACTERS
from dreamer_study.pipeline.tokens.tokenizer import SAMPLE_CHARACTERS
from dreamer_study.pipeline.worlds.tasks import REPOSITORY

# The version of a stage goes up whenever its code changes what it writes: old outputs are then not
# used again.
VERSIONS = {
    "world": 2,
    "documents": 7,
    "traces": 5,
    "clean": 3,
    # with this version goes up the one of deduplicate, whose key does not name the signatures
    "signatures": 2,
    "deduplicate": 5,
    "decontaminate": 7,
    "items": 4,
    "late": 3,
    "tokenizer": 2,
    "tokens": 6,
    "funnel": 3,
    "runs": 1,
    "evaluations": 1,
    "decisions": 1,
}
# held out to choose learning rates on, where data.tuning does not say how many
TUNING_DOCUMENTS = 1000

VALUES = TypeAdapter(Any)
Wanted = Source | Benchmark


@dataclass(frozen=True)
class SourcePlan:
    """A source of documents: its folder, its commit where one is recorded, and the outputs that
    curate it."""

    source: Source
    folder: Path
    commit: str | None
    documents: Output
    traces: Output
    clean: Output
    signatures: Output

    @property
    def chain(self) -> list[Output]:
        """The outputs of the stages that look at one document at a time."""
        return [self.documents, self.traces, self.clean]

    @property
    def files(self) -> list[Path]:
        """The files that hold the rows of the source; those of the built-in world once it has been
        written."""
        return source_files(self.source, self.folder)


@dataclass(frozen=True)
class DataPlan:
    """The data outputs of a study, from its sources to the packed tokens."""

    world: Output | None
    sources: tuple[SourcePlan, ...]
    items: Output
    unique: Output
    curated: Output
    tokenizer: Output
    packed: Output
    funnel: Output
    late: Mapping[str, Output]  # by benchmark: which of its items stand in the data
    counted: tuple[Output, ...]  # of the stages that count documents, before packing

    @property
    def outputs(self) -> list[Output]:
        """All outputs, in the order in which they are made."""
        curation = [output for one in self.sources for output in one.chain]
        signatures = [one.signatures for one in self.sources]
        last = [
            self.unique,
            self.curated,
            self.tokenizer,
            self.packed,
            self.funnel,
            *self.late.values(),
        ]
        return [*filter(None, (self.world, self.items)), *curation, *signatures, *last]


class PlannedData:
    """The part of a plan that knows the data outputs; Plan of `study_plan.py` is the whole."""

    def __init__(self, study: Study) -> None:
        self.study, self.store = study, Store(study.store_folder, tell=write_line)

    def find(self, entry: Wanted) -> Path | None:
        """Find the folder of a data set here; None where it is still to be fetched."""
        study = self.study
        place = {"mirror": study.mirror, "cache": study.folder / "hub", "beside": study.place}
        return folder_of(entry, splits_of(entry), **place)

    @property
    def absent(self) -> list[Wanted]:
        """The data sets that are still to be fetched."""
        return [
            one
            for one in (*self.study.own_sources, *self.study.own_benchmarks)
            if self.find(one) is None
        ]

    def folder_of(self, entry: Wanted) -> Path:
        """Return the folder of a data set that has been fetched."""
        folder = self.find(entry)
        assert folder is not None, "what is absent is told before"
        return folder

    @cached_property
    def data(self) -> DataPlan:
        """The data outputs. Raises InputError while data sets are still to be fetched."""
        if absent := self.absent:
            names = ", ".join(entry.name for entry in absent)
            raise InputError(
                f"{self.study.name}: not fetched yet: {names}; `dreamer run {self.study.arguments}`"
                " does"
            )
        data = self.study.data
        world = self._output("world", data.world) if self.study.needs_world else None
        sources = self._sources(world)
        cleaned = [source.clean for source in sources]
        # Signatures have no place in the key, as the documents and the settings decide their
        # content.
        unique = self._output("deduplicate", data.deduplicate, cleaned)
        items = self._items(world)
        curated = self._output("decontaminate", data.decontaminate, [unique, items])
        tokenizer = self._tokenizer(curated)
        packed = self._output("tokens", self.packing, [curated, tokenizer])
        counted = (*(output for one in sources for output in one.chain), unique, curated)
        funnel = self._output(
            "funnel", {"characters": EXACT_CHARACTERS}, [*counted, tokenizer, packed]
        )
        late = {one.name: self._late(one, curated) for one in self.study.own_benchmarks if one.late}
        return DataPlan(
            world, tuple(sources), items, unique, curated, tokenizer, packed, funnel, late, counted
        )

    @property
    def packing(self) -> dict[str, Any]:
        """The settings by which the tokens are packed."""
        data = self.study.data
        shape = {"sequence_length": self.study.training.sequence_length, "seed": data.seed}
        tuning = data.tuning or (TUNING_DOCUMENTS if self.study.training.tune else 0)
        held_out = {"validation": data.validation, **({"tuning": tuning} if tuning else {})}
        weights = {source.name: source.weight for source in data.resolved if source.weight != 1}
        return {**shape, **held_out, **({"weights": weights} if weights else {})}

    @property
    def prepared(self) -> bool:
        """Whether all data outputs have been made."""
        return self.trainable and all(output.done for output in self.data.late.values())

    @property
    def trainable(self) -> bool:
        """Whether all that trainings read has been made; the items of late benchmarks may still be
        looked for."""
        return not self.absent and all(
            output.done for output in self.data.outputs if output.stage != "late"
        )

    def _output(self, stage: str, configuration: Any, inputs: Sequence[Output] = ()) -> Output:
        """Describe one output; `configuration` is a settings dataclass or plain values."""
        shape, names = plain(configuration), tuple(output.name for output in inputs)
        key = self.store.key(stage, VERSIONS[stage], shape, names)
        return Output(stage, key, self.store.root / stage / key, VERSIONS[stage], shape, names)

    def _sources(self, world: Output | None) -> list[SourcePlan]:
        """Plan the outputs of every source: read, strip traces, clean, sign."""
        data, found = self.study.data, []
        for source in data.resolved:
            if source.repository == REPOSITORY:
                assert world is not None, "a study with built-in documents needs the world"
                folder, files, made_of = world.path / source.repository, [], [world]
            else:
                folder, made_of = self.folder_of(source), []
                files = source_files(source, folder)
            with ThreadPoolExecutor() as threads:
                digests = list(threads.map(self.store.file_digest, files))
            # How a source is packed and stripped does not decide what is read.
            later = ("weight", "trace", "longest_unmarked")
            described = {name: value for name, value in plain(source).items() if name not in later}
            # that of the source alone is in its description
            limit = data.limit and data.limit_of(source)
            shape = {"source": described, "files": digests, "limit": limit}
            documents = self._output("documents", shape, made_of)
            stripping = {"marking": source.trace, "longest_unmarked": source.longest_unmarked}
            traces = self._output("traces", stripping, [documents])
            clean = self._output("clean", data.clean, [traces])
            signatures = self._output("signatures", data.deduplicate.signing, [clean])
            commit = resolved_revision(folder)
            found.append(SourcePlan(source, folder, commit, documents, traces, clean, signatures))
        return found

    def _items(self, world: Output | None) -> Output:
        """Plan the items that must not be in the training data."""
        declared = [one for one in self.study.own_benchmarks if not one.late]
        configuration = {
            "builtin": BUILTIN in self.study.evaluation.benchmarks,
            "benchmarks": [_defined(one) for one in declared],
            "data": [digest for one in declared for digest in self._digests(one)],
        }
        return self._output("items", configuration, [world] if world else [])

    def _late(self, benchmark: Benchmark, curated: Output) -> Output:
        """Plan the output that lists which items of a late benchmark occur in the data."""
        rules = self.study.data.decontaminate
        shape = {
            "benchmark": _defined(benchmark),
            "data": self._digests(benchmark),
            "rules": plain(rules),
        }
        return self._output("late", shape, [curated])

    def _digests(self, benchmark: Benchmark) -> list[str]:
        """Hash the files of a benchmark: the split that is evaluated, and those that are kept out
        of training."""
        folder = self.folder_of(benchmark)
        return [
            self.store.file_digest(path)
            for configuration in benchmark.configurations
            for split in benchmark.splits
            if split == benchmark.split or has_splits(folder, [(configuration, split)])
            for path in find_split(folder, configuration, split)
        ]

    def _tokenizer(self, curated: Output) -> Output:
        """Plan the tokenizer: trained on the curated documents, or the one that the study names."""
        wanted = self.study.data.tokenizer
        if wanted.hub:
            return self._output("tokenizer", {"hub": wanted.hub, "revision": wanted.revision})
        if file := self.study.tokenizer_file:
            return self._output("tokenizer", {"file": self.store.file_digest(file)})
        trained = {
            "vocabulary_size": wanted.vocabulary_size,
            "sample_characters": SAMPLE_CHARACTERS,
        }
        return self._output("tokenizer", trained, [curated])


def splits_of(entry: Wanted) -> tuple[str, ...]:
    """Return the splits that a study reads of a data set; further ones of a benchmark need not be
    there."""
    return (entry.split,) if isinstance(entry, Benchmark) else entry.splits


def _defined(benchmark: Benchmark) -> dict[str, Any]:
    """Return what defines a benchmark, whether it was named before the data were made or after."""
    return {name: value for name, value in plain(benchmark).items() if name != "late"}


def plain(value: Any) -> Any:
    """Reduce a value to what JSON knows: dataclasses become mappings, tuples and sets lists, paths
    text."""
    return VALUES.dump_python(value, mode="json")
