"""The configuration of a study: the sections of the YAML file, with every default.

The sections, in reading order, are the data (`data_section.py`), the models (`models_section.py`),
the training (`training_section.py`), and the evaluation (`evaluation_section.py`). The settings of
a curation stage are a dataclass of that stage.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import Field, PrivateAttr, model_validator

from dreamer_study.flows.study.benchmark_splits import evaluated_split
from dreamer_study.flows.study.data_section import BUILTIN, Data, HomePath
from dreamer_study.flows.study.evaluation_section import Evaluation, benchmark_names
from dreamer_study.flows.study.models_section import Models, Variant, file_of
from dreamer_study.flows.study.training_section import Training
from dreamer_study.model.architectures.code import digests
from dreamer_study.model.training.config import HOW_IT_RUNS, TrainingConfig, without_later
from dreamer_study.model.training.recipe import ADAMW, RateDecay
from dreamer_study.pipeline.benchmarks.benchmark import Benchmark
from dreamer_study.pipeline.benchmarks.table import resolve_benchmark
from dreamer_study.pipeline.errors import placing
from dreamer_study.pipeline.settings import Section, distinct
from dreamer_study.pipeline.sources.source import Source
from dreamer_study.pipeline.sources.table import resolve_source
from dreamer_study.pipeline.storage.digests import digest
from dreamer_study.pipeline.tokens.validation import VALIDATION
from dreamer_study.sql.names import AVERAGE
from dreamer_study.sql.statistics.expectations import Expectation

PRESETS = Path(__file__).with_name("presets")
OF_THE_MACHINE: dict[str, Any] = {  # settings that differ between machines and change no result
    **dict.fromkeys(("root", "store", "workers", "compute", "tracking"), True),
    "data": {"mirror", "memory"},
}


class Compute(Section):
    """Where the work is done."""

    cluster: str | None = Field(
        None,
        description=(
            "Address of a Dask scheduler (tcp://host:8786), whose workers curate, train and"
            " evaluate; local: workers on the cores of this machine; null: no Dask."
        ),
    )
    per_gpu: int = Field(
        1, ge=1, description="Processes that share a GPU; a small model leaves most of it idle."
    )
    retries: int = Field(
        1,
        ge=0,
        description=(
            "How often a training or an evaluation is tried again after its process failed or was"
            " killed; it resumes from its newest state."
        ),
    )
    silence: float | None = Field(
        None,
        gt=0,
        description=(
            "Seconds after which a process that writes nothing is ended and tried again; null: the"
            " process is only named."
        ),
    )


class _Trained(NamedTuple):
    """A variant with its seeds, its architecture and its recipe, to find equal trainings."""

    name: str
    seeds: set[int]
    content: dict[str, Any]


class Study(Section):
    """A whole study: its name, the folder that it writes to, and the sections."""

    name: str = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", description="letters, digits and (not first) . - _"
    )
    remark: str = Field(
        "",
        description="A line for readers of the report, such as how settings were chosen.",
    )
    root: HomePath | None = Field(
        None, description="Folder that the study writes to; null: runs/<name>."
    )
    store: HomePath | None = Field(
        None, description="Folder of a store that several studies share; null: <root>/store."
    )
    workers: int | None = Field(
        None,
        ge=1,
        description="Processes that run at once; null: one for each core, or for each GPU.",
    )
    data: Data = Field(description="The documents, and how they are curated and tokenised.")
    models: Models = Field(
        default_factory=Models, description="The architectures that are compared, and their sizes."
    )
    training: Training = Field(description="The recipe, the seeds and the checkpoints.")
    evaluation: Evaluation = Field(
        description="The benchmarks, and how every checkpoint is evaluated on them."
    )
    compute: Compute = Field(
        default_factory=Compute, description="Where the work is done, and what is tried again."
    )
    tracking: Literal["wandb", "trackio", "tensorboard"] | None = Field(
        None,
        description="Experiment tracker that logs each training as a run; null: none.",
    )
    expect: list[Expectation] = Field(
        [], description="Known effects; `dreamer run` ends with status 1 if one is missed."
    )
    _arguments: str | None = PrivateAttr(None)
    _place: Path = PrivateAttr(Path())
    # whether models or benchmarks of the file were changed
    _changed: bool = PrivateAttr(False)
    # what relative paths are relative to, also after a change
    _start: Path = PrivateAttr(default_factory=Path.cwd)

    @model_validator(mode="after")
    def _expects_of_its_variants(self) -> Study:
        variants = [variant.name for variant in self.models.variants]
        tasks = [AVERAGE, VALIDATION, *benchmark_names(self.evaluation.benchmarks)]
        for expected in self.expect:
            against = expected.against or self.models.compared_with
            for name in (expected.variant, against):
                if name not in variants:
                    raise ValueError(
                        f"expect: {name} is not a variant; the variants are {', '.join(variants)}"
                    )
            if expected.variant == against:
                raise ValueError(f"expect: {against} is compared with itself; name another variant")
            if expected.task not in tasks:
                raise ValueError(
                    f"expect: {expected.task} is not a benchmark; the benchmarks are"
                    f" {', '.join(tasks)}"
                )
        return self

    @model_validator(mode="after")
    def _has_the_tasks_of_its_targets(self) -> Study:
        tasks = [AVERAGE, VALIDATION, *benchmark_names(self.evaluation.benchmarks)]
        targets = self.evaluation.target
        for target in targets:
            if target.task not in tasks:
                raise ValueError(
                    f"evaluation.target: {target.task} is not a benchmark; the benchmarks are"
                    f" {', '.join(tasks)}"
                )
        distinct([f"{target.task} ({target.metric})" for target in targets], "targets")
        return self

    @model_validator(mode="after")
    def _has_the_weights_it_evaluates(self) -> Study:
        asks_for_branches = self.evaluation.weights == "branches"
        if asks_for_branches and not self.training.branches:
            raise ValueError(
                "evaluation.weights is 'branches', but training.branches is 0; set"
                " training.branches, such as 0.1, or evaluate averaged weights"
            )
        if self.training.branches and not asks_for_branches:
            raise ValueError(
                f"training.branches is {self.training.branches:g}, but evaluation.weights is"
                f" {self.evaluation.weights!r} and evaluates no branch; set evaluation.weights to"
                " branches, or leave out training.branches"
            )
        powers = [variant.training.get("averaging", 1) for variant in self.models.trained]
        all_averaged = self.training.averaging and all(powers)
        if not all_averaged and self.evaluation.weights in ("averaged", "both"):
            raise ValueError(
                f"evaluation.weights is {self.evaluation.weights!r}, but training.averaging is 0"
                " and keeps no average; set evaluation.weights to raw, or training.averaging"
                " above 0"
            )
        return self

    @model_validator(mode="after")
    def _tunes_on_seeds_of_its_own(self) -> Study:
        tune = self.training.tune
        shared = {*tune.seeds} & {*self.seeds} if tune else None
        if shared:
            raise ValueError(
                f"training.tune.seeds: seed {min(shared)} also trains a model of the study; give"
                " another seed"
            )
        return self

    @model_validator(mode="after")
    def _can_train_each_variant(self) -> Study:
        rates = {
            variant.name: variant.training.get("learning_rate") for variant in self.models.trained
        }
        for name, rate in rates.items():
            where = f"models.variants: {name}"
            if isinstance(rate, dict):
                names_both = rate.keys() == {"times", "of"}
                # `of` must name a variant of the study whose own rate is not a multiple
                if not names_both or isinstance(rates.get(str(rate["of"]), {}), dict):
                    raise ValueError(
                        f"{where}: learning_rate must be a number, or {{times: 0.25, of: NAME}} of"
                        " a variant whose rate is a number"
                    )
            with placing(where):
                made = TrainingConfig(**self._recipe_of(self.variant(name)))
            searches_decay = "decay" in self.searched(name, also_of_a_multiple=True)
            if searches_decay and not isinstance(made.schedule, RateDecay):
                raise ValueError(
                    f"training.tune.decay: the schedule of {name} is {made.schedule!r}, which has"
                    " no share `decay`; give training.schedule as {decay: 0.2, to: 0.1}"
                )
        return self

    @model_validator(mode="after")
    def _trains_no_variant_twice(self) -> Study:
        trained: list[_Trained] = []
        for variant in self.models.trained:
            this = self._trained_as(variant)
            for other in trained:
                shared = this.seeds & other.seeds
                if shared and this.content == other.content:
                    raise ValueError(
                        f"models.variants: {variant.name} repeats {other.name}, with the same"
                        f" architecture, recipe and seed {min(shared)}; give {variant.name} other"
                        " `seeds`, or leave it out"
                    )
            trained.append(this)
        return self

    def _recipe_of(self, variant: Variant) -> dict[str, Any]:
        """Return the fields of TrainingConfig for a variant.

        A learning rate that is a multiple of another variant's becomes that multiple.
        """
        recipe = {**self.training.recipe(0), **variant.training}
        if isinstance(recipe["learning_rate"], dict):
            recipe["learning_rate"] = recipe["learning_rate"]["times"]
        return recipe

    def _trained_as(self, variant: Variant) -> _Trained:
        """Return the seeds, the architecture and the recipe of a variant's trainings."""
        rate = variant.training.get("learning_rate")
        recipe = {
            name: value
            for name, value in self._recipe_of(variant).items()
            if name not in HOW_IT_RUNS
        }
        # A tuned rate, or a multiple of another variant's, may differ where the numbers are equal.
        recipe["of"] = rate if self.training.tune or isinstance(rate, dict) else None
        recipe["searched"] = self.searched(variant.name)
        content = {**variant.model_dump(exclude={"name", "seeds"}), "training": recipe}
        return _Trained(variant.name, {*self.seeds_of(variant.name)}, content)

    def variant(self, name: str) -> Variant:
        """Return the variant with this name."""
        return next(variant for variant in self.models.variants if variant.name == name)

    def searched(self, variant: str, *, also_of_a_multiple: bool = False) -> list[str]:
        """Return the names of the settings that `tune` searches for a variant.

        A setting that the variant sets itself is not searched. If its learning rate is a multiple
        of another variant's, nothing is searched, and the variant takes the other settings of that
        variant; `also_of_a_multiple` names these settings.
        """
        tune = self.training.tune
        if not tune:
            return []
        own = self.variant(variant).training
        if isinstance(own.get("learning_rate"), dict) and not also_of_a_multiple:
            return []
        key_of = {"decay": "schedule"}
        return [name for name in tune.grids if key_of.get(name, name) not in own]

    def rate_of_all(self, variant: str) -> float:
        """Return the learning rate of a variant without a search: its own, or the study's."""
        return self.variant(variant).training.get("learning_rate", self.training.learning_rate)

    def optimizer_files(self, variant: str) -> list[str]:
        """Return the code files of a variant's optimizer, the file of its class first."""
        of_variant = self.variant(variant)
        own = file_of(of_variant.training.get("optimizer", self.training.optimizer))
        return [own, *of_variant.files] if own else []

    def optimizer_of(self, variant: str) -> dict[str, Any]:
        """Return the name, arguments and code digests of an optimizer; nothing for AdamW."""
        recipe = self._recipe_of(self.variant(variant))
        if recipe["optimizer"] == ADAMW:
            return {}
        named = {"optimizer": recipe["optimizer"]}
        files = self.optimizer_files(variant)
        if files:
            named["optimizer_config"] = recipe["optimizer_config"]
            named["optimizer_files"] = digests(self.place, files)
        return named

    @property
    def code_files(self) -> list[str]:
        """All code files of the study's own models and optimizers."""
        files = []
        for variant in self.models.trained:
            files += [*variant.code_files, *self.optimizer_files(variant.name)]
        return list(dict.fromkeys(files))

    def seeds_of(self, variant: str) -> list[int]:
        """Return the seeds that the models of a variant are trained with."""
        return self.variant(variant).seeds or self.training.seeds

    @property
    def seeds(self) -> list[int]:
        """All seeds that any model is trained with, in order."""
        return sorted(
            {seed for variant in self.models.trained for seed in self.seeds_of(variant.name)}
        )

    @property
    def arguments(self) -> str:
        """STUDY and its options as given on the command line, for advice on what to run."""
        return self._arguments or self.name

    @property
    def run_command(self) -> str:
        """The command that runs the study, for advice; code of the user's has to be trusted."""
        runs_code = bool(self.code_files) and not self.trusted
        return f"dreamer run {self.arguments}{' --trust-code' if runs_code else ''}"

    @property
    def named(self) -> bool:
        """Whether the study comes from a preset or a file, and not from values in Python."""
        return self._arguments is not None

    @property
    def place(self) -> Path:
        """The folder of the study file, which holds its task files and its code."""
        return self._start / self._place

    @property
    def trusted(self) -> bool:
        """Whether the study is an unchanged preset, so that its models are code of the package."""
        if self._changed or self._place != PRESETS:
            return False
        return bool(self.code_files)

    @property
    def weights_of_search(self) -> str:
        """The weights by which `tune` chooses settings: its trainings have no branches."""
        weights = self.evaluation.weights
        return "averaged" if weights == "branches" else weights

    @property
    def study_id(self) -> str:
        """The name and a digest of all settings that affect the results.

        Paths, and settings of how and where the study is computed, do not affect them.
        """
        not_decisive = {
            **OF_THE_MACHINE,
            "expect": True,
            "remark": True,
            "training": {"ranks", *HOW_IT_RUNS},
        }
        content = self.model_dump(mode="json", exclude=not_decisive)
        if not self.training.seeds_until:
            del content["training"]["seeds_until"]
        if self.training.documents == "apart":
            del content["training"]["documents"]
        content["training"] = without_later(content["training"])
        tune = content["training"]["tune"]
        if tune:
            content["training"]["tune"] = {
                name: value for name, value in tune.items() if value is not None
            }
        if not self.evaluation.target:
            del content["evaluation"]["target"]
        if self.data.like is None:
            del content["data"]["like"]
        if self.data.deduplicate.remove:
            del content["data"]["deduplicate"]["remove"]
        if self.code_files:
            content["code"] = digests(self.place, self.code_files)
        for variant in content["models"]["variants"]:
            if variant["from"] is None:
                del variant["from"]
            variant["training"] = {
                key: value for key, value in variant["training"].items() if key not in HOW_IT_RUNS
            }
        return f"{self.name}-{digest(content)[:8]}"

    @property
    def folder(self) -> Path:
        """The folder that the study writes to."""
        return self._start / (self.root if self.root is not None else Path("runs") / self.name)

    @property
    def store_folder(self) -> Path:
        """The folder of the outputs of all stages, which several studies may share."""
        return self._start / self.store if self.store is not None else self.folder / "store"

    @property
    def mirror(self) -> Path | None:
        """The folder of data sets that is searched before the hub; None if there is none."""
        return self._start / self.data.mirror if self.data.mirror else None

    @property
    def tokenizer_file(self) -> Path | None:
        """The file of the tokenizer; None if the study names no file."""
        return self._start / self.data.tokenizer.file if self.data.tokenizer.file else None

    @property
    def database(self) -> Path:
        """The results file."""
        return self.folder / "results.duckdb"

    @property
    def report(self) -> Path:
        """The page of the report."""
        return self.folder / "report" / "index.html"

    @property
    def needs_world(self) -> bool:
        """Whether the built-in world is a source or a benchmark of the study."""
        return BUILTIN in self.data.sources or BUILTIN in self.evaluation.benchmarks

    @property
    def own_sources(self) -> list[Source]:
        """The sources, without the built-in world."""
        return [resolve_source(entry) for entry in self.data.sources if entry != BUILTIN]

    @property
    def own_benchmarks(self) -> list[Benchmark]:
        """The benchmarks, without those of the built-in world.

        If an entry names no split, the task file names it.
        """
        benchmarks = []
        for entry in self.evaluation.benchmarks:
            if entry == BUILTIN:
                continue
            benchmark = resolve_benchmark(entry)
            if isinstance(entry, dict) and entry.get("repository") and not entry.get("split"):
                split = evaluated_split(benchmark, self.place)
                benchmark = dataclasses.replace(benchmark, split=split)
            benchmarks.append(benchmark)
        return benchmarks
