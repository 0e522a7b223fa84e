"""Plan the data of a study: every output from sources to packed tokens, with key and folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from dreamer_study.flows.progress.reports import write_line
from dreamer_study.flows.study.configuration import Study
from dreamer_study.flows.study.data_section import BUILTIN
from dreamer_study.flows.study.loading import load_study, study_named_by
from dreamer_study.model.evaluation.lm_eval_files import read_task
from dreamer_study.pipeline.benchmarks.benchmark import Benchmark
from dreamer_study.pipeline.benchmarks.items import task_file
from dreamer_study.pipeline.dedup.settings import DedupSettings
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
from dreamer_study.pipeline.tokens.tokenizer import SAMPLE_CHARACTERS, TOKENIZER
from dreamer_study.pipeline.tokens.validation import VALIDATION, held_out_digest
from dreamer_study.pipeline.worlds.tasks import REPOSITORY

# The version of a stage goes up whenever its code changes what it writes: old outputs are then not
# used again.
VERSIONS = {
    "world": 2,
    "documents": 9,
    "traces": 8,
    "clean": 3,
    # with this version goes up the one of deduplicate, whose key does not name the signatures
    "signatures": 5,
    "deduplicate": 8,
    "decontaminate": 11,
    "items": 6,
    "late": 7,
    "ceiling": 2,
    "tokenizer": 2,
    "tokens": 7,
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
    """A source of documents: its folder, its recorded commit if any, and its outputs."""

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
        """The files with the rows of the source; the built-in world's once it has been written."""
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
    late: Mapping[str, Output]  # by benchmark: which of its items are in the data
    counted: tuple[Output, ...]  # of the stages that count documents, before packing
    # by benchmark, BUILTIN for those of the world: how its scorer rates its own gold answers
    ceilings: Mapping[str, Output]

    @property
    def outputs(self) -> list[Output]:
        """All outputs, in the order in which they are made."""
        world = [self.world] if self.world else []
        return [
            *world,
            self.items,
            *(output for planned in self.sources for output in planned.chain),
            *(planned.signatures for planned in self.sources),
            self.unique,
            self.curated,
            self.tokenizer,
            self.packed,
            self.funnel,
            *self.late.values(),
            *self.ceilings.values(),
        ]


class PlannedData:
    """The part of a plan that knows the data outputs; Plan of `study_plan.py` is the whole."""

    def __init__(self, study: Study) -> None:
        self.study = study
        self.store = Store(study.store_folder, tell=write_line)

    def find(self, entry: Wanted) -> Path | None:
        """Find the folder of a data set here; None where it is still to be fetched."""
        study = self.study
        return folder_of(
            entry,
            splits_of(entry),
            mirror=study.mirror,
            cache=study.folder / "hub",
            beside=study.place,
        )

    @property
    def absent(self) -> list[Wanted]:
        """The data sets that are still to be fetched."""
        wanted = (*self.study.own_sources, *self.study.own_benchmarks)
        return [entry for entry in wanted if self.find(entry) is None]

    def folder_of(self, entry: Wanted) -> Path:
        """Return the folder of a data set that has been fetched."""
        folder = self.find(entry)
        assert folder is not None, "absent data sets are an error before"
        return folder

    @cached_property
    def like(self) -> DataPlan | None:
        """The data of the study whose tokenizer and held-out documents this one takes, if any.

        Raises InputError where that study holds nothing out, or its data have not been made.
        """
        name = self.study.data.like
        if name is None:
            return None
        other = load_study(study_named_by(self.study, name))
        where = f"data.like: {name}"
        if other.study_id == self.study.study_id:
            raise InputError(f"{where}: is this study itself; name another one")
        if other.data.like:
            raise InputError(f"{where}: takes both from {other.data.like}; name that study")
        planned = PlannedData(other)
        if not planned.trainable:
            raise InputError(
                f"{where}: its data have not been made yet; `{other.run_command}` makes them"
            )
        if not planned.data.packed.results[VALIDATION]:
            raise InputError(f"{where}: holds no documents out; give it data.validation above 0")
        return planned.data

    @property
    def tokenizer_file(self) -> Path | None:
        """The file of the tokenizer that the study takes; None where it trains or fetches one."""
        if self.like:
            return self.like.tokenizer.path / TOKENIZER
        return self.study.tokenizer_file

    @cached_property
    def data(self) -> DataPlan:
        """The data outputs. Raises InputError while data sets are still to be fetched."""
        absent = self.absent
        if absent:
            names = ", ".join(entry.name for entry in absent)
            raise InputError(
                f"{self.study.name}: not fetched yet: {names}; `{self.study.run_command}` does"
            )
        data = self.study.data
        world = self._output("world", data.world) if self.study.needs_world else None
        sources = self._sources(world)
        cleaned = [source.clean for source in sources]
        # Signatures are not in the key: the documents and the settings decide their content.
        unique = self._output("deduplicate", _deduplication(data.deduplicate), cleaned)
        items = self._items(world)
        curated = self._output("decontaminate", data.decontaminate, [unique, items])
        tokenizer = self._tokenizer(curated)
        packed = self._output("tokens", self.packing, [curated, tokenizer])
        counted = (*(output for source in sources for output in source.chain), unique, curated)
        funnel = self._output(
            "funnel", {"characters": EXACT_CHARACTERS}, [*counted, tokenizer, packed]
        )
        late = {
            benchmark.name: self._late(benchmark, curated)
            for benchmark in self.study.own_benchmarks
            if benchmark.late
        }
        return DataPlan(
            world=world,
            sources=tuple(sources),
            items=items,
            unique=unique,
            curated=curated,
            tokenizer=tokenizer,
            packed=packed,
            funnel=funnel,
            late=late,
            counted=counted,
            ceilings=self._ceilings(world),
        )

    @property
    def packing(self) -> dict[str, Any]:
        """The settings by which the tokens are packed."""
        data = self.study.data
        settings: dict[str, Any] = {
            "sequence_length": self.study.training.sequence_length,
            "seed": data.seed,
            "validation": data.validation,
        }
        # What a study does not use has no entry: its key stays that of a study from before.
        if self.like:
            settings["validation"] = 0
            settings["held_out_like"] = held_out_digest(self.like.packed.path)
        tuning = data.tuning
        if not tuning and self.study.training.tune:
            tuning = TUNING_DOCUMENTS
        if tuning:
            settings["tuning"] = tuning
        weights = {source.name: source.weight for source in data.resolved if source.weight != 1}
        if weights:
            settings["weights"] = weights
        return settings

    @property
    def prepared(self) -> bool:
        """Whether all data outputs have been made."""
        return self.trainable and all(output.done for output in self.data.late.values())

    @property
    def trainable(self) -> bool:
        """Whether all that trainings read has been made.

        The items of late benchmarks may still be looked for, and gold answers be scored.
        """
        if self.absent:
            return False
        not_read = ("late", "ceiling")
        return all(output.done for output in self.data.outputs if output.stage not in not_read)

    def _output(self, stage: str, configuration: Any, inputs: Sequence[Output] = ()) -> Output:
        """Describe one output; `configuration` is a settings dataclass or plain values."""
        values = plain(configuration)
        names = tuple(output.name for output in inputs)
        version = VERSIONS[stage]
        key = self.store.key(stage, version, values, names)
        return Output(stage, key, self.store.root / stage / key, version, values, names)

    def _sources(self, world: Output | None) -> list[SourcePlan]:
        """Plan the outputs of every source: read, strip traces, clean, sign."""
        return [self._source(source, world) for source in self.study.data.resolved]

    def _source(self, source: Source, world: Output | None) -> SourcePlan:
        data = self.study.data
        if source.repository == REPOSITORY:
            assert world is not None, "a study with built-in documents needs the world"
            folder = world.path / source.repository
            files: list[Path] = []
            made_of = [world]
        else:
            folder = self.folder_of(source)
            files = source_files(source, folder)
            made_of = []
        with ThreadPoolExecutor() as threads:
            digests = list(threads.map(self.store.file_digest, files))
        # How a source is packed and stripped does not decide what is read.
        used_later = ("weight", "trace", "trace_marks", "longest_unmarked")
        described = {name: value for name, value in plain(source).items() if name not in used_later}
        # The limit of the source alone is in its description.
        limit = data.limit and data.limit_of(source)
        reading = {"source": described, "files": digests, "limit": limit}
        documents = self._output("documents", reading, made_of)
        stripping = {
            "marking": source.trace,
            "longest_unmarked": source.longest_unmarked,
            "marks": source.trace_marks,
        }
        traces = self._output("traces", stripping, [documents])
        clean = self._output("clean", data.clean, [traces])
        signatures = self._output("signatures", data.deduplicate.signing, [clean])
        commit = resolved_revision(folder)
        return SourcePlan(source, folder, commit, documents, traces, clean, signatures)

    def _items(self, world: Output | None) -> Output:
        """Plan the items that must not be in the training data."""
        benchmarks = [benchmark for benchmark in self.study.own_benchmarks if not benchmark.late]
        configuration = {
            "builtin": BUILTIN in self.study.evaluation.benchmarks,
            "benchmarks": [_defined(benchmark) for benchmark in benchmarks],
            "data": [digest for benchmark in benchmarks for digest in self._digests(benchmark)],
        }
        return self._output("items", configuration, [world] if world else [])

    def _late(self, benchmark: Benchmark, curated: Output) -> Output:
        """Plan the output that lists which items of a late benchmark occur in the data."""
        configuration = {
            "benchmark": _defined(benchmark),
            "data": self._digests(benchmark),
            "rules": plain(self.study.data.decontaminate),
        }
        return self._output("late", configuration, [curated])

    def _ceilings(self, world: Output | None) -> dict[str, Output]:
        """Plan the outputs that say which gold answers a benchmark's scorer calls right."""
        harness = metadata.version("lm-eval")
        ceilings = {}
        if world and BUILTIN in self.study.evaluation.benchmarks:
            ceilings[BUILTIN] = self._output("ceiling", {"harness": harness}, [world])
        for benchmark in self.study.own_benchmarks:
            if benchmark.text:
                continue  # whose perplexity is measured
            configuration = {
                "benchmark": _defined(benchmark),
                "data": self._digests(benchmark),
                "definition": self._definition(benchmark),
                "harness": harness,
            }
            ceilings[benchmark.name] = self._output("ceiling", configuration)
        return ceilings

    def _definition(self, benchmark: Benchmark) -> list[str]:
        """Hash the task file of a benchmark, and what that includes."""
        file = task_file(benchmark, self.study.place, self.study.mirror)
        if file is None:
            return []
        files = read_task(Path(file), benchmark.name, trust_code=True).files
        return sorted(map(self.store.file_digest, files))

    def _digests(self, benchmark: Benchmark) -> list[str]:
        """Hash the files of a benchmark: of the evaluated split, and of those kept out of training.

        Only the evaluated split must be there.
        """
        folder = self.folder_of(benchmark)
        digests = []
        for configuration in benchmark.configurations:
            for split in benchmark.splits:
                if split == benchmark.split or has_splits(folder, [(configuration, split)]):
                    files = find_split(folder, configuration, split)
                    digests += map(self.store.file_digest, files)
        return digests

    def _tokenizer(self, curated: Output) -> Output:
        """Plan the tokenizer: trained on the curated documents, or the one that the study names."""
        wanted = self.study.data.tokenizer
        if wanted.hub:
            return self._output("tokenizer", {"hub": wanted.hub, "revision": wanted.revision})
        file = self.tokenizer_file
        if file:
            return self._output("tokenizer", {"file": self.store.file_digest(file)})
        trained = {
            "vocabulary_size": wanted.vocabulary_size,
            "sample_characters": SAMPLE_CHARACTERS,
        }
        return self._output("tokenizer", trained, [curated])


def splits_of(entry: Wanted) -> tuple[str, ...]:
    """Return the splits that must be there of a data set; a benchmark may have further ones."""
    if isinstance(entry, Benchmark):
        return (entry.split,)
    return entry.splits


def _defined(benchmark: Benchmark) -> dict[str, Any]:
    """Return what defines a benchmark, whether it was named before the data were made or after."""
    return {name: value for name, value in plain(benchmark).items() if name != "late"}


def _deduplication(settings: DedupSettings) -> dict[str, Any]:
    """Return the settings of deduplication; keys from before `remove` stay as they were."""
    values = plain(settings)
    if settings.remove:
        del values["remove"]
    return values


def plain(value: Any) -> Any:
    """Reduce a value to what JSON knows.

    Dataclasses become mappings, tuples and sets lists, paths text.
    """
    return VALUES.dump_python(value, mode="json")
