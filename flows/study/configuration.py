"""The configuration of a study: the sections of the YAML file, with every default.

Sections in reading order: the data (`data_section.py`), which models are compared, how they are
trained, on which benchmarks they are evaluated. The settings of a curation stage are that stage's
own dataclass.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PrivateAttr,
    field_validator,
    model_validator,
)

from dreamer_study.flows.study.data_section import BUILTIN, Data, HomePath
from dreamer_study.flows.study.section import Section, check_keys, distinct, settings_section
from dreamer_study.model.architectures.code import digests
from dreamer_study.model.evaluation.job import INTROSPECTION, EvaluationSettings
from dreamer_study.model.training.config import (
    HOW_FAR,
    HOW_IT_RUNS,
    NotNegative,
    Positive,
    TrainingConfig,
)
from dreamer_study.pipeline.benchmarks.benchmark import Benchmark
from dreamer_study.pipeline.benchmarks.table import resolve_benchmark
from dreamer_study.pipeline.errors import placing
from dreamer_study.pipeline.sources.source import Source
from dreamer_study.pipeline.sources.table import resolve_source
from dreamer_study.pipeline.storage.digests import digest
from dreamer_study.pipeline.tokens.validation import TUNING, VALIDATION
from dreamer_study.pipeline.worlds.tasks import WORLD_BENCHMARKS
from dreamer_study.sql.names import AVERAGE
from dreamer_study.sql.statistics.expectations import Expectation
from dreamer_study.sql.statistics.sequential import LOOKS

VARIANTS = ("LA", "DR", "DR+DA")
TAKEN = {  # names that stand for a benchmark in the results
    AVERAGE: "the average over benchmarks",
    VALIDATION: "the documents held out of training",
    TUNING: "the documents that settings are chosen on",
    INTROSPECTION: "what is observed of a model's attention and experts",
}
MOST_CHECKPOINTS = 10_000
LONGEST_SEQUENCE = 2**20
MOST_RANKS = 256  # beyond every machine
PRESETS = Path(__file__).with_name("presets")
OF_THE_MACHINE: dict[str, Any] = {  # what decides no result, and is another elsewhere
    **dict.fromkeys(("root", "store", "workers", "compute", "tracking"), True),
    "data": {"mirror", "memory"},
}
ELSEWHERE = {  # sizes of a model that are no field of models.dreamer
    "depth": "models.depths",
    "vocabulary_size": "data.tokenizer",
    "sequence_length": "training.sequence_length",
}
# no variant has its own
OF_ALL = ("seed", *HOW_FAR, "batch_tokens", "loss_on", "device", "raw_checkpoints")


Distinct = AfterValidator(lambda values: distinct(values, "these values"))
Seeds = Annotated[list[NotNegative], Distinct]


class Match(Section):
    """The sizes of a variant that are searched until its costs are nearest to those of the
    baseline."""

    flops: str | None = Field(
        None, description="the size that is searched for equal FLOPs per token"
    )
    parameters: str | None = Field(
        None, description="the size that is searched for equal parameters"
    )

    @property
    def fields(self) -> dict[str, str]:
        """Return the name of each size by what it is searched for."""
        return self.model_dump(exclude_none=True)


class Variant(Section):
    """One architecture to compare: of the bundled family, in a file of one's own, or of the
    transformers library."""

    name: str = Field(
        pattern=r"^[A-Za-z0-9+][A-Za-z0-9+_.-]*$",
        description="letters, digits, + and (not first) . - _",
    )
    family: Literal["LA", "DR", "DR+DA"] | None = Field(
        None, description="layered, recurrent, with depth attention"
    )
    overrides: dict[str, Any] = Field(
        default_factory=dict, description="fields of DreamerConfig, with `family`"
    )
    module: str | None = Field(
        None, pattern=r"^[^:]+\.py:[A-Za-z_]\w*$", description="a class: <file>.py:<class>"
    )
    files: list[str] = Field(
        default_factory=list, description="further files of code that the module needs"
    )
    transformers: str | None = Field(
        None, pattern=r"^\w[\w.-]*$", description="a model type of transformers"
    )
    config: dict[str, Any] = Field(
        default_factory=dict, description="arguments of the class, or of the model type"
    )
    match: bool | Match | None = Field(
        None,
        description=(
            "to the baseline: sizes by name, or true (the default of a family) for experts and"
            " their size"
        ),
    )
    training: dict[str, Any] = Field(
        default_factory=dict,
        description=(
            "settings of its own; a learning_rate, also {times: 0.25, of: LA}, is not tuned"
        ),
    )
    seeds: Seeds | None = Field(
        None, min_length=1, description="of its own; default: training.seeds"
    )

    @field_validator("training")
    @classmethod
    def _of_its_own(cls, training: dict[str, Any]) -> dict[str, Any]:
        return check_keys(
            training, [name for name in TrainingConfig.__dataclass_fields__ if name not in OF_ALL]
        )

    @model_validator(mode="after")
    def _one_origin(self) -> Variant:
        if sum(origin is not None for origin in (self.family, self.module, self.transformers)) != 1:
            raise ValueError(f"{self.name}: give one of family, module and transformers")
        if self.match is True and not self.family:
            raise ValueError(
                f"{self.name}: name the sizes that are searched, as in match: {{flops:"
                " hidden_size}"
            )
        if isinstance(self.match, Match) and not self.match.fields:
            raise ValueError(f"{self.name}: match names no size; give flops, parameters or both")
        for given, needed in (("overrides", "family"), ("files", "module")):
            if getattr(self, given) and not getattr(self, needed):
                raise ValueError(f"{self.name}: {given} belongs to a variant with {needed}")
        if self.config and self.family:
            raise ValueError(f"{self.name}: sizes of a family are overrides, not config")
        if said := next(
            (name for name in ELSEWHERE if name in self.overrides and name != "depth"), None
        ):
            raise ValueError(
                f"{self.name}: {said} is said by {ELSEWHERE[said]}; leave it out of overrides"
            )
        return self

    @property
    def matched(self) -> bool:
        """Whether sizes of the variant are searched, unless the variant is what the others are
        matched to."""
        return self.family is not None if self.match is None else bool(self.match)

    @property
    def code_files(self) -> list[str]:
        """The files of code that the variant needs, that of its class first."""
        return [self.module.rpartition(":")[0], *self.files] if self.module else []


def _named(entry: Any) -> Any:
    """Turn the name of a family into the variant of that name."""
    return {"name": entry, "family": entry} if isinstance(entry, str) else entry


NamedVariant = Annotated[
    Variant, BeforeValidator(_named, json_schema_input_type=Literal["LA", "DR", "DR+DA"] | Variant)
]


class Models(Section):
    """The architectures and depths. Variants are matched to the baseline in FLOPs and
    parameters."""

    depths: Annotated[list[Annotated[int, Field(ge=1)]], Distinct] = Field(
        default=[4], min_length=1, description="layers, or iterations"
    )
    variants: list[NamedVariant] = Field(
        default=[Variant(name=v, family=v) for v in VARIANTS],
        min_length=1,
        description="architectures to compare",
    )
    baseline: str | None = Field(
        None, description="what others are compared with and matched to; default: the first"
    )
    dreamer: dict[str, Any] = Field(
        default_factory=dict, description="fields of DreamerConfig, for LA, DR and DR+DA"
    )
    counted_length: int | None = Field(
        None, ge=1, description="over which FLOPs are counted; default: sequence_length"
    )

    @model_validator(mode="after")
    def _named_once(self) -> Models:
        names = distinct([variant.name for variant in self.variants], "variant names")
        if self.baseline is not None and self.baseline not in names:
            raise ValueError(
                f"baseline is {self.baseline!r}, but the variants are {', '.join(names)}"
            )
        return self

    @property
    def compared_with(self) -> str:
        """The variant that the others are compared with."""
        return self.baseline or self.variants[0].name

    @field_validator("dreamer")
    @classmethod
    def _said_here_alone(cls, dreamer: dict[str, Any]) -> dict[str, Any]:
        if said := next((name for name in ELSEWHERE if name in dreamer), None):
            raise ValueError(f"{said} is said by {ELSEWHERE[said]}; leave it out here")
        return dreamer


class Tuning(Section):
    """A search over learning rates for every variant without its own: the same rates, seeds and
    tokens for each."""

    learning_rate: Annotated[list[Positive], Distinct, AfterValidator(sorted)] = Field(
        min_length=2, description="one beyond is added where an edge is best"
    )
    seeds: Seeds = Field(min_length=1, description="of the search alone")
    tokens: int = Field(ge=1, description="of each training of the search")


class SeedsUntil(Section):
    """Add seeds to each model until the widest interval is narrow enough; looks come at 4, 8, 16
    and 24 seeds."""

    high_over_low: float = Field(
        gt=1, description="of every interval of the average accuracy, at which no seed is added"
    )
    most: int = Field(
        LOOKS[-1], gt=LOOKS[0], le=LOOKS[-1], description="seeds of each model, 0 to one less"
    )


class Training(settings_section(TrainingConfig, without=["seed", "raw_checkpoints"])):
    """The settings of TrainingConfig, the same for every model without its own, and what a study
    adds to them."""

    batch_tokens: int = Field(2**20, description="of one optimiser step, padding included")
    save_every_seconds: float = Field(60, description="between two states to resume from")
    checkpoints: int | list[int] = Field(
        12, description="how many, evenly spaced, or the token counts themselves"
    )
    checkpoint_every: int | None = Field(
        None,
        ge=1,
        description=(
            "tokens between checkpoints, in place of their number: a longer study keeps their"
            " places"
        ),
    )
    sequence_length: int = Field(4096, ge=8, le=LONGEST_SEQUENCE, description="tokens of a row")
    seeds: Seeds = Field(
        default=[0, 1], min_length=1, description="each model is trained once with each"
    )
    seeds_until: SeedsUntil | None = Field(
        None, description="in place of `seeds`: add some until intervals are narrow"
    )
    screening: float = Field(
        0.0, ge=0, lt=1, description="all seeds train this far, then the best; 0: all to the end"
    )
    tune: Tuning | None = Field(
        None, description="choose each model's learning rate on held-out text"
    )
    ranks: int | None = Field(
        None,
        ge=1,
        le=MOST_RANKS,
        description=(
            "processes that train a run together; default: the GPUs divided by the runs, else 1"
        ),
    )

    @model_validator(mode="before")
    @classmethod
    def _in_turn(cls, values: Any) -> Any:
        if isinstance(values, dict) and isinstance(until := values.get("seeds_until"), dict):
            most = until.get("most", LOOKS[-1])
            # the field says what is wrong
            seeds = list(range(most)) if isinstance(most, int) and most > 0 else [0]
            if given := [
                name
                for name, own in (("seeds", seeds), ("screening", 0))
                if values.get(name, own) != own
            ]:
                raise ValueError(
                    "seeds_until says which seeds are trained, all to the end: leave out"
                    f" {given[0]}"
                )
            values = {**values, "seeds": seeds}
        return values

    @field_validator("checkpoints")
    @classmethod
    def _countable(cls, checkpoints: int | list[int]) -> int | list[int]:
        if not checkpoints or (
            isinstance(checkpoints, int) and not 1 <= checkpoints <= MOST_CHECKPOINTS
        ):
            raise ValueError(
                f"{checkpoints} checkpoints: give 1 to {MOST_CHECKPOINTS:,}, or a list of token"
                " counts"
            )
        return checkpoints if isinstance(checkpoints, int) else distinct(checkpoints, "checkpoints")

    @model_validator(mode="after")
    def _accepted_by_the_trainer(self) -> Training:
        # a dump has these too
        usual = {name: field.default for name, field in type(self).model_fields.items()}
        if self.checkpoint_every and self.checkpoints != usual["checkpoints"]:
            raise ValueError(
                "checkpoints and checkpoint_every say the same in two ways: give one of them"
            )
        if self.checkpoint_every and self.tokens / self.checkpoint_every > MOST_CHECKPOINTS:
            raise ValueError(
                f"checkpoint_every={self.checkpoint_every:,}: more than {MOST_CHECKPOINTS:,}"
                " checkpoints"
            )
        if self.batch_tokens % self.sequence_length:
            raise ValueError(
                f"batch_tokens={self.batch_tokens:,} is no multiple of"
                f" sequence_length={self.sequence_length:,}: a step reads whole rows"
            )
        TrainingConfig(**self.recipe(0))
        if usual["warmup_steps"] != self.warmup_steps >= 2 * self.tokens / self.batch_tokens:
            raise ValueError(
                f"warmup_steps={self.warmup_steps:,} are more than {self.tokens:,} tokens take"
                " in all"
            )
        return self

    def recipe(self, seed: int) -> dict[str, Any]:
        """Return the fields of TrainingConfig for one seed."""
        kept = self.model_dump(include={*TrainingConfig.__dataclass_fields__}, exclude_none=True)
        return {**kept, "seed": seed, "checkpoints": list(self.points)}

    def stop_at(self, seeds: int) -> int | None:
        """Return the tokens at which the race of so many seeds of a model ends; None: all are
        trained to the end."""
        return round(self.tokens * self.screening) if seeds > 1 and self.screening > 0 else None

    @property
    def points(self) -> tuple[int, ...]:
        """Return the token counts at which checkpoints are taken; the final one is the whole
        budget."""
        if self.checkpoint_every:
            return (*range(self.checkpoint_every, self.tokens, self.checkpoint_every), self.tokens)
        if isinstance(self.checkpoints, int):
            return tuple(
                round(self.tokens * (i + 1) / self.checkpoints) for i in range(self.checkpoints)
            )
        return tuple(sorted({*(p for p in self.checkpoints if p < self.tokens), self.tokens}))


def benchmark_names(entries: Sequence[str | dict[str, Any]]) -> list[str]:
    """Name the benchmarks that entries of a study stand for."""
    found = (
        list(WORLD_BENCHMARKS) if entry == BUILTIN else [resolve_benchmark(entry).name]
        for entry in entries
    )
    return [name for names in found for name in names]


class Evaluation(settings_section(EvaluationSettings)):
    """The benchmarks every checkpoint is evaluated on, and the settings of EvaluationSettings."""

    benchmarks: list[str | dict[str, Any]] = Field(
        min_length=1,
        description="'builtin', names that `dreamer sources` lists, or benchmarks of your own",
    )
    introspect: bool = Field(
        True, description="observe depth attention and expert usage at every checkpoint"
    )
    bootstrap_replicates: int = Field(
        1000, ge=0, le=100_000, description="of the items, for intervals; 0: none"
    )

    @field_validator("benchmarks")
    @classmethod
    def _known_benchmarks(cls, entries: list[str | dict[str, Any]]) -> list[str | dict[str, Any]]:
        for name in distinct(benchmark_names(entries), "names of benchmarks"):
            if what := TAKEN.get(name):
                raise ValueError(f"{name!r} is the name of {what}; name the benchmark otherwise")
        return entries


class Compute(Section):
    """Where the work is done."""

    cluster: str | None = Field(
        None,
        description=(
            "a Dask scheduler whose workers curate, train and evaluate (tcp://host:8786); 'local':"
            " workers on the cores of this machine; default: no Dask"
        ),
    )
    per_gpu: int = Field(
        1, ge=1, description="processes that share a GPU, which small models leave idle"
    )


class Study(Section):
    """A whole study: `name` and the sections; `root` is where everything it writes lies."""

    name: str = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", description="letters, digits and (not first) . - _"
    )
    remark: str = Field(
        "",
        description="what readers of the report must know, as how settings were chosen beforehand",
    )
    root: HomePath | None = Field(None, description="where the study writes; default runs/<name>")
    store: HomePath | None = Field(
        None, description="a store shared with other studies; default <root>/store"
    )
    workers: int | None = Field(
        None, ge=1, description="processes side by side; default: one for each core, or GPU"
    )
    data: Data
    models: Models = Field(default_factory=Models)
    training: Training
    evaluation: Evaluation
    compute: Compute = Field(default_factory=Compute)
    tracking: Literal["wandb", "trackio", "tensorboard"] | None = Field(
        None,
        description="the experiment tracker to which each training is logged as one of its runs",
    )
    expect: list[Expectation] = Field(
        [], description="known effects: `dreamer run` ends with 1 where one is missed"
    )
    _arguments: str | None = PrivateAttr(None)
    _place: Path = PrivateAttr(Path())
    # whether models or benchmarks of the file were changed
    _changed: bool = PrivateAttr(False)
    # what relative paths are relative to, also after a change
    _start: Path = PrivateAttr(default_factory=Path.cwd)

    @model_validator(mode="after")
    def _expects_of_its_variants(self) -> Study:
        known = [variant.name for variant in self.models.variants]
        tasks = [AVERAGE, VALIDATION, *benchmark_names(self.evaluation.benchmarks)]
        for each in self.expect:
            against = each.against or self.models.compared_with
            for name in (each.variant, against):
                if name not in known:
                    raise ValueError(f"expect: {name} is none of the variants: {', '.join(known)}")
            if each.variant == against:
                raise ValueError(f"expect: {against} is compared with itself")
            if each.task not in tasks:
                raise ValueError(
                    f"expect: {each.task} is none of the benchmarks: {', '.join(tasks)}"
                )
        return self

    @model_validator(mode="after")
    def _has_the_weights_it_evaluates(self) -> Study:
        own = [variant.training.get("averaging", 1) for variant in self.models.variants]
        if not all([self.training.averaging, *own]) and self.evaluation.weights != "raw":
            raise ValueError(
                f"evaluation.weights is {self.evaluation.weights!r}, but training.averaging is 0"
                " and keeps no average; set evaluation.weights to raw, or training.averaging"
                " above 0"
            )
        return self

    @model_validator(mode="after")
    def _trains_each_variant(self) -> Study:
        training, variants, before = (
            self.training,
            self.models.variants,
            list[tuple[str, set[int], dict[str, Any]]](),
        )
        if training.tune and (shared := {*training.tune.seeds} & {*self.seeds}):
            raise ValueError(
                f"training.tune.seeds: {min(shared)} also trains a model that is measured; name"
                " another"
            )
        rates = {variant.name: variant.training.get("learning_rate") for variant in variants}
        for variant in variants:
            where, own, rate = (
                f"models.variants: {variant.name}",
                dict(variant.training),
                rates[variant.name],
            )
            if isinstance(rate, dict):
                if rate.keys() != {"times", "of"} or isinstance(
                    rates.get(str(rate["of"]), {}), dict
                ):
                    raise ValueError(
                        f"{where}: learning_rate is a number, or {{times: 0.25, of: a variant with"
                        " one}"
                    )
                own["learning_rate"] = rate["times"]
            seeds, recipe = {*self.seeds_of(variant.name)}, {**training.recipe(0), **own}
            with placing(where):
                TrainingConfig(**recipe)
            recipe["of"] = rate if training.tune or isinstance(rate, dict) else None
            kind = variant.model_dump(exclude={"name", "seeds"})
            kind["training"] = {
                name: value for name, value in recipe.items() if name not in HOW_IT_RUNS
            }
            for name, others, other in before:
                if other == kind and (twice := seeds & others):
                    raise ValueError(
                        f"{where} is {name} again, with the same architecture, recipe and seed"
                        f" {min(twice)}: give it `seeds` of its own, or leave it out"
                    )
            before.append((variant.name, seeds, kind))
        return self

    def variant(self, name: str) -> Variant:
        """Return the variant of a name."""
        return next(variant for variant in self.models.variants if variant.name == name)

    def seeds_of(self, variant: str) -> list[int]:
        """Return the seeds with which the models of a variant are trained."""
        return self.variant(variant).seeds or self.training.seeds

    @property
    def seeds(self) -> list[int]:
        """All seeds with which any model is trained."""
        return sorted(
            {seed for variant in self.models.variants for seed in self.seeds_of(variant.name)}
        )

    @property
    def arguments(self) -> str:
        """STUDY and its options as given on the command line, for advice on which command to
        run."""
        return self._arguments or self.name

    @property
    def place(self) -> Path:
        """The folder of the study file, below which its task files and its code lie."""
        return self._start / self._place

    @property
    def trusted(self) -> bool:
        """Whether the study is a preset whose models stand in a file of the package: no code of
        anybody else's."""
        if self._changed or self._place != PRESETS:
            return False
        return any(variant.module for variant in self.models.variants)

    @property
    def study_id(self) -> str:
        """The name and a digest of all settings that decide the results, without paths and ways of
        computing."""
        apart = {
            **OF_THE_MACHINE,
            "expect": True,
            "remark": True,
            "training": {"ranks", *HOW_IT_RUNS},
        }
        content = self.model_dump(mode="json", exclude=apart)
        if not self.training.seeds_until:
            del content["training"]["seeds_until"]
        if files := [name for variant in self.models.variants for name in variant.code_files]:
            content["code"] = digests(self.place, files)
        for variant in content["models"]["variants"]:
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
        """The folder of the stage outputs, which studies may share."""
        return self._start / self.store if self.store is not None else self.folder / "store"

    @property
    def mirror(self) -> Path | None:
        """The folder of data sets that is looked in before the hub."""
        return self._start / self.data.mirror if self.data.mirror else None

    @property
    def tokenizer_file(self) -> Path | None:
        """The file of the tokenizer, where the study names one."""
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
        """The benchmarks, without those of the built-in world."""
        return [
            resolve_benchmark(entry) for entry in self.evaluation.benchmarks if entry != BUILTIN
        ]
