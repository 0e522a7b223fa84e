"""Size the models of a study, and keep in its store what only running a model tells.

Building a model of somebody's code, counting its FLOPs and checking its contract takes seconds. The
answers are in `store/counts/<key>.json`; the key is made of all that decides them: the question
(code by its digests, fields, sequence length, target), and the versions of the packages that
answer. So a plan that was made before, and the start of a run, take no time for them. An answer is

    {"model": {"module": "transformers:llama", "config": {"intermediate_size": 138, ...}, ...},
     "resources": {"parameters": 213824, "flops_per_token": 451584.0, ...}, "seal": "53e1f0c6..."}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from dreamer_study.flows.plan.elsewhere import costs_elsewhere
from dreamer_study.flows.plan.model_plan import (
    Answer,
    PlannedModel,
    Sizing,
    check_trusted,
    describe,
    layered_model,
    plan_models,
    searched,
    size,
)
from dreamer_study.flows.study.configuration import Study
from dreamer_study.model.accounting import Resources
from dreamer_study.model.architectures.code import versions
from dreamer_study.model.module_config import Architecture, ModuleConfig, read_architecture
from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.storage.digests import digest
from dreamer_study.pipeline.storage.files import write_text_atomically
from dreamer_study.pipeline.storage.integrity import read_sealed, sealed

COUNTS = "counts"  # a folder of the store
WHERE = "models.variants"  # begins the lines about them
VERSION = 1  # of what is kept: goes up where other numbers are counted, or other things checked


def sized_models(
    study: Study, vocabulary_size: int, end_token: int = 0, *, trust_code: bool = False
) -> list[PlannedModel]:
    """Size every model of a study for a vocabulary of a size, with this end mark.

    Raises InputError for code that is not trusted, for an origin whose rows cannot be taken, for
    wrong fields, of all variants in one line before any model is built, and where no match exists.
    """
    check_trusted(study, trust_code=trust_code)
    costs = costs_elsewhere(study)  # first, as what follows writes into the study's folder
    check_fields(study, vocabulary_size, trust_code=trust_code)
    sizes = Sizes(study, trust_code=trust_code)
    return plan_models(study, vocabulary_size, sizes, end_token, costs)


@dataclass(frozen=True)
class Sizes:
    """Answers sizings: by formulas, from what the store keeps, else by running the model."""

    study: Study
    trust_code: bool

    def __call__(self, sizing: Sizing) -> Answer:
        if sizing.by_formula:
            return size(sizing)
        kept = Kept(self.study, {"sizing": sizing.content()}, sizing.architecture)
        values = kept.read()
        if values is not None:
            costs = values["resources"]
            costs["remarks"] = tuple(costs["remarks"])
            return read_architecture(values["model"]), Resources(**costs)
        config, costs = size(sizing, self.study.place, trust_code=self.trust_code)
        kept.write({"model": config.to_dict(), "resources": vars(costs)})
        return config, costs


class Kept:
    """A place in the store for what running the code of some architectures has told."""

    def __init__(
        self, study: Study, content: Mapping[str, Any], *architectures: Architecture
    ) -> None:
        packages = {name: metadata.version(name) for name in ("torch", "dreamer-study")}
        for architecture in architectures:
            packages |= versions(architecture, study.place)
        key = digest([COUNTS, VERSION, content, packages])
        self.path = study.store_folder / COUNTS / f"{key}.json"

    def read(self) -> dict[str, Any] | None:
        """Read what is kept; None where nothing is, or nothing whole: then it is made again."""
        with suppress(InputError, OSError):
            return read_sealed(self.path)
        return None

    def write(self, values: Mapping[str, Any]) -> None:
        """Keep values; a store where nothing can be written keeps none."""
        with suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_text_atomically(self.path, sealed(values), shared=True)


_Asked = tuple[str, Architecture, list[str]]
"""What is asked of a library or a file of code: a variant, its fields, and those searched."""


def check_fields(study: Study, vocabulary_size: int, *, trust_code: bool) -> None:
    """Raise InputError for wrong fields of any variants, in one line, before a model is built.

    That all are right is kept too, as libraries that know the fields take seconds to load.
    """
    variants = study.models.trained
    wrong: dict[str, list[str]] = {variant.name: [] for variant in variants}
    to_ask: list[_Asked] = []
    for depth in study.models.depths:
        layered = layered_model(study, depth, vocabulary_size)
        for variant in variants:
            try:
                config = describe(study, variant, layered)
            except InputError as error:
                where = f"{WHERE}: {variant.name}: "
                wrong[variant.name].append(str(error).removeprefix(where))
                continue
            fields = [*searched(variant).values()]
            if fields or isinstance(config, ModuleConfig):
                to_ask.append((variant.name, config, fields))
    if to_ask:
        content = {"fields": [[config.to_dict(), fields] for _, config, fields in to_ask]}
        kept = Kept(study, content, *(config for _, config, _ in to_ask))
        are_right = kept.read() is not None
        if not are_right or any(wrong.values()):
            for name, words in _found_wrong(study, to_ask, trust_code=trust_code):
                wrong[name].append(words)
        if not are_right and not any(wrong.values()):
            kept.write({"fields": "right"})
    found = [f"{name}: {words}" for name, each in wrong.items() for words in dict.fromkeys(each)]
    if found:
        raise InputError(f"{WHERE}: {'; '.join(found)}")


def _found_wrong(
    study: Study, to_ask: Sequence[_Asked], *, trust_code: bool
) -> list[tuple[str, str]]:
    """List what libraries, and files of code, find wrong with the fields of variants, by name."""
    # imports torch
    from dreamer_study.model.architectures.fields import wrong_fields

    return [
        (name, words)
        for name, config, fields in to_ask
        for words in wrong_fields(config, fields, code=study.place, trust_code=trust_code)
    ]
