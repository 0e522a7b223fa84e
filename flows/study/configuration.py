"""What a study is: the YAML file a user writes, validated by pydantic, with every default visible here.

Sections in reading order: where the data come from and how they are curated, which models are compared, how they are
trained, on what they are evaluated. The settings of a curation stage are the frozen dataclass of that stage: said once,
there, and turned into a validated section here.
"""

from __future__ import annotations

import dataclasses
import difflib
import shlex
import typing
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationError,
    create_model,
    field_validator,
    model_validator,
)

from flows.study.settings_section import settings_section
from flows.study.yaml_text import read_yaml
from model.evaluation.job import EvaluationSettings
from model.training.config import HOW_IT_RUNS, TrainingConfig
from pipeline.benchmarks.table import resolve_benchmark
from pipeline.clean import CleanSettings
from pipeline.decontaminate.settings import DecontaminationSettings
from pipeline.dedup.settings import DedupSettings
from pipeline.errors import InputError
from pipeline.sources.table import resolve_source
from pipeline.storage.store import digest
from pipeline.worlds.world import WORLD_SOURCE, WorldSettings

VARIANTS = ("LA", "DR", "DR+DA")
MOST_CHECKPOINTS = 10_000
BUILTIN = "builtin"  # the name under which a study asks for the built-in world, as a source and as benchmarks


class Section(BaseModel):
    """A part of a study file. An unknown key is an error that names the nearest valid one."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        for key in value:
            if key not in cls.model_fields:
                near = difflib.get_close_matches(str(key), cls.model_fields, 1)
                hint = f"did you mean {near[0]!r}?" if near else f"valid keys are {', '.join(cls.model_fields)}"
                raise ValueError(f"unknown key {key!r}; {hint}")
        return value


class StageSettings(Section):
    """The validated form of a stage's settings dataclass, which checks the values itself."""

    kind: ClassVar[type]

    @model_validator(mode="after")
    def _accepted_by_the_stage(self) -> StageSettings:
        settings(self, self.kind)
        return self


def _section(kind: type) -> type[StageSettings]:
    """A section with the fields and defaults of a stage's settings dataclass."""
    hints = typing.get_type_hints(kind)
    fields: dict[str, Any] = {}
    for field in dataclasses.fields(kind):
        if field.default is not dataclasses.MISSING:
            default = Field(field.default)
        elif field.default_factory is not dataclasses.MISSING:
            default = Field(default_factory=field.default_factory)
        else:
            default = Field(...)
        fields[field.name] = (hints[field.name], default)
    section = create_model(kind.__name__, __base__=StageSettings, **fields)
    section.kind = kind
    section.__doc__ = kind.__doc__
    return section


def settings(section: BaseModel, kind: type) -> Any:
    """Turn a validated section back into the stage's dataclass."""
    return kind(**{field.name: getattr(section, field.name) for field in dataclasses.fields(kind)})


Clean, Dedup, Decontamination, World = (
    _section(kind) for kind in (CleanSettings, DedupSettings, DecontaminationSettings, WorldSettings)
)


class Tokenizer(Section):
    """Exactly one of: train one on the study's own documents, take one of the hub, take a local tokenizer.json."""

    vocabulary_size: int | None = Field(
        None, ge=260, description="train a byte-level BPE tokenizer of at most this size"
    )
    hub: str | None = None
    revision: str | None = None
    file: Path | None = None

    @model_validator(mode="after")
    def _one_origin(self) -> Tokenizer:
        if (self.hub is None) == (self.file is None) and not (self.hub is None and self.vocabulary_size):
            raise ValueError("give one of 'vocabulary_size' (train one), 'hub' (an id) or 'file' (a tokenizer.json)")
        if self.file and not self.file.is_file():
            raise ValueError(f"there is no tokenizer file {self.file}")
        return self


class Data(Section):
    """Where documents come from and what is done to them before training."""

    mirror: Path | None = None
    world: World = Field(default_factory=World)  # type: ignore[valid-type]
    sources: list[str | dict[str, Any]] = Field(min_length=1)
    limit: int | None = Field(None, ge=1, description="rows read of each source, for a quick look")
    clean: Clean = Field(default_factory=Clean)  # type: ignore[valid-type]
    deduplicate: Dedup = Field(default_factory=Dedup)  # type: ignore[valid-type]
    decontaminate: Decontamination = Field(default_factory=Decontamination)  # type: ignore[valid-type]
    memory: str = Field("4GB", pattern=r"^\d+(\.\d+)?\s*[KMGT]i?B$")
    cluster: str | None = Field(
        None, description="a Dask scheduler whose workers read, clean and tokenise (tcp://host:8786), or 'local'"
    )
    tokenizer: Tokenizer = Field(default_factory=lambda: Tokenizer(vocabulary_size=512))

    @field_validator("sources")
    @classmethod
    def _known_sources(cls, entries: list[str | dict[str, Any]]) -> list[str | dict[str, Any]]:
        names = set()
        for entry in entries:
            source = resolve_source(entry) if entry != BUILTIN else None
            name = source.name if source else WORLD_SOURCE["name"]
            if name in names:  # it is part of every document's id
                raise ValueError(f"the name {name!r} is given twice; names of sources must differ")
            names.add(name)
            if source and source.use != "train":
                raise ValueError(
                    f"{source.name} is validation text and never trains; name it under evaluation.benchmarks"
                )
        return entries


class Variant(Section):
    """One model to compare: a family, optionally renamed and with fields of its configuration overridden."""

    name: str = Field(pattern=r"^[A-Za-z0-9+_.-]+$")
    family: Literal["LA", "DR", "DR+DA"]
    overrides: dict[str, Any] = Field(default_factory=dict)
    match: bool = True


class Models(Section):
    """Which architectures, at which depths. Variants are matched to LA of the same depth in FLOPs and parameters."""

    depths: list[Annotated[int, Field(ge=1)]] = Field(default=[4], min_length=1)
    variants: list[Variant] = Field(default=[Variant(name=v, family=v) for v in VARIANTS], min_length=1)
    baseline: dict[str, Any] = Field(
        default_factory=dict, description="fields of DreamerConfig, for LA and all matched to it"
    )

    @field_validator("variants", mode="before")
    @classmethod
    def _short_names(cls, entries: Any) -> Any:
        if not isinstance(entries, list):
            return entries
        return [{"name": e, "family": e} if isinstance(e, str) else e for e in entries]

    @field_validator("variants")
    @classmethod
    def _distinct(cls, variants: list[Variant]) -> list[Variant]:
        names = [variant.name for variant in variants]
        if len(set(names)) < len(names):
            raise ValueError(f"variant names must differ, got {', '.join(names)}")
        return variants

    @field_validator("depths")
    @classmethod
    def _different(cls, depths: list[int]) -> list[int]:
        if len(set(depths)) < len(depths):
            raise ValueError(f"depths must differ, got {', '.join(map(str, depths))}")
        return depths


class Training(settings_section(Section, TrainingConfig, without=["seed"])):
    """The settings of TrainingConfig, the same for every model, and what a study adds to them."""

    batch_tokens: int = 2**20
    save_every_seconds: float = 60
    checkpoints: int | list[int] = Field(12, description="how many, evenly spaced, or the token counts themselves")
    sequence_length: int = Field(4096, ge=8)
    seeds: list[int] = Field(default=[0, 1], min_length=1)
    screening: float = Field(
        0.25, ge=0, lt=1, description="train all seeds this far, the best goes on; 0: all seeds all the way"
    )
    ranks: int | None = Field(
        None, ge=1, description="processes that train a run together; default: the GPUs divided by the runs, else 1"
    )

    @field_validator("checkpoints")
    @classmethod
    def _sensible_number(cls, checkpoints: int | list[int]) -> int | list[int]:
        if isinstance(checkpoints, int) and not 1 <= checkpoints <= MOST_CHECKPOINTS:
            raise ValueError(f"{checkpoints} checkpoints: give 1 to {MOST_CHECKPOINTS:,}, or a list of token counts")
        return checkpoints

    @model_validator(mode="after")
    def _accepted_by_the_engine(self) -> Training:
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"seeds must differ, got {', '.join(map(str, self.seeds))}")
        for seed in self.seeds:
            TrainingConfig(**self.recipe(seed))
        return self

    def recipe(self, seed: int) -> dict[str, Any]:
        """The fields of TrainingConfig for one seed."""
        apart = {"seeds", "screening", "checkpoints", "sequence_length", "ranks"}
        return {
            **self.model_dump(exclude=apart, exclude_none=True),
            "seed": seed,
            "checkpoints": list(self.points),
        }

    @property
    def stop_at(self) -> int | None:
        """Where all seeds stop and the best goes on; None when every seed goes all the way."""
        screened = len(self.seeds) > 1 and self.screening > 0
        return round(self.tokens * self.screening) if screened else None

    @property
    def points(self) -> tuple[int, ...]:
        """The token counts at which checkpoints are taken; the last is the whole budget."""
        if isinstance(self.checkpoints, int):
            return tuple(round(self.tokens * (i + 1) / self.checkpoints) for i in range(self.checkpoints))
        return tuple(sorted({*(p for p in self.checkpoints if p < self.tokens), self.tokens}))


class Evaluation(settings_section(Section, EvaluationSettings)):
    """The benchmarks every checkpoint is evaluated on, and the settings of EvaluationSettings."""

    benchmarks: list[str | dict[str, Any]] = Field(min_length=1)
    introspect: bool = Field(True, description="observe depth attention and expert usage at every checkpoint")
    bootstrap_replicates: int = Field(1000, ge=0)

    @model_validator(mode="after")
    def _accepted_by_the_engine(self) -> Evaluation:
        EvaluationSettings(**self.model_dump(include=set(EvaluationSettings.__dataclass_fields__)))
        return self

    @field_validator("benchmarks")
    @classmethod
    def _known_benchmarks(cls, entries: list[str | dict[str, Any]]) -> list[str | dict[str, Any]]:
        for entry in entries:
            if entry != BUILTIN:
                resolve_benchmark(entry)
        return entries


class Study(Section):
    """A whole study: `name` and the four sections; `root` is where everything it writes lies."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")
    root: Path | None = None
    store: Path | None = Field(None, description="a store shared with other studies; default <root>/store")
    workers: int | None = Field(None, ge=1, description="processes side by side; default: one for each core, or GPU")
    data: Data
    models: Models = Field(default_factory=Models)
    training: Training
    evaluation: Evaluation
    _words: str | None = PrivateAttr(None)

    @property
    def words(self) -> str:
        """The study as it was named on the command line, for advice on what to run."""
        return self._words or self.name

    @property
    def study_id(self) -> str:
        """The name and a digest of what decides the results: where files lie and how it was computed do not."""
        apart = {
            "root": True,
            "store": True,
            "workers": True,
            "data": {"mirror", "memory", "cluster"},
            "training": {"ranks", *HOW_IT_RUNS},
        }
        content = self.model_dump(mode="json", exclude=apart)
        return f"{self.name}-{digest(content)[:8]}"

    @property
    def folder(self) -> Path:
        return self.root if self.root is not None else Path("runs") / self.name

    @property
    def store_folder(self) -> Path:
        return self.store if self.store is not None else self.folder / "store"

    @property
    def database(self) -> Path:
        return self.folder / "results.duckdb"

    @property
    def report(self) -> Path:
        return self.folder / "report" / "index.html"

    @property
    def needs_world(self) -> bool:
        return BUILTIN in self.data.sources or BUILTIN in self.evaluation.benchmarks


def presets() -> list[str]:
    """The names of the studies that come with the package."""
    return sorted(
        path.name.removesuffix(".yaml")
        for path in resources.files("flows.study.presets").iterdir()
        if path.name.endswith(".yaml")
    )


def load_study(
    study: str | Path | Mapping[str, Any], *, mirror: Path | str | None = None, root: Path | str | None = None
) -> Study:
    """The study of a preset's name, a YAML file's path, or a mapping; `mirror` and `root` override what it says.

    Raises InputError, in one line, for a file that is not there, is not YAML, or does not validate.
    """
    if isinstance(study, Mapping):
        where, content = "study", dict(study)
    else:
        where = str(study)
        if where in presets():
            text = (resources.files("flows.study.presets") / f"{where}.yaml").read_text()
        else:
            path = Path(study)
            if path.is_dir() or not path.exists():
                raise InputError(
                    f"study {where!r} is neither a preset ({', '.join(presets())}) nor a YAML file that exists"
                )
            text = path.read_bytes()
        content = read_yaml(where, text)
        if not isinstance(content, dict):
            raise InputError(f"{where}: a study is a mapping with the keys {', '.join(Study.model_fields)}")
    if mirror is not None:
        content["data"] = {**(content.get("data") or {}), "mirror": str(mirror)}
    if root is not None:
        content["root"] = str(root)
    try:
        found = Study.model_validate(content)
    except ValidationError as error:
        raise InputError(f"{where}: {_first_line(error)}") from None
    if not isinstance(study, Mapping):
        options = {"--mirror": mirror, "--root": root}
        given = [str(word) for option in options.items() if option[1] is not None for word in option]
        found._words = shlex.join([where, *given])
    return found


def _first_line(error: ValidationError) -> str:
    """All validation errors on one line, the place of each first."""
    parts = []
    for one in error.errors(include_url=False):
        place = ".".join(str(part) for part in one["loc"])
        message = one["msg"].removeprefix("Value error, ")
        parts.append(f"{place}: {message}" if place and not message.startswith(f"{place}.") else message)
    return "; ".join(parts)
