"""Build the JSON schema of a study file, which lets editors complete keys and mark errors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import TypeAdapter

from dreamer_study.flows.study.configuration import Study
from dreamer_study.flows.study.data_section import BUILTIN, PAPER
from dreamer_study.flows.study.models_section import OF_ALL
from dreamer_study.model.dreamer_config import DreamerConfig
from dreamer_study.model.training.config import TrainingConfig
from dreamer_study.pipeline.benchmarks.benchmark import Benchmark
from dreamer_study.pipeline.benchmarks.table import BENCHMARKS, SHORT_KEYS
from dreamer_study.pipeline.sources.source import Source
from dreamer_study.pipeline.sources.table import SOURCES

BETAS = {
    "type": "array",
    "items": {"type": "number", "minimum": 0, "exclusiveMaximum": 1},
    "minItems": 2,
    "maxItems": 2,
    "description": "beta1 and beta2 of AdamW as a pair.",
}


def study_schema() -> dict[str, Any]:
    """Return the JSON schema of a study file.

    The schema of `Study` is completed by what `Study` itself leaves open: names and entries of
    sources and benchmarks, sizes of Dreamer, and recipes of variants.
    """
    schema = Study.model_json_schema()
    kinds = schema["$defs"]
    kinds |= {
        kind.__name__: TypeAdapter(kind).json_schema()
        for kind in (Source, Benchmark, DreamerConfig)
    }
    for kind in [schema, *kinds.values()]:
        if "properties" in kind:
            kind["additionalProperties"] = False  # a misspelt key is an error in every section
    for key, description in SHORT_KEYS.items():
        kinds["Benchmark"]["properties"][key] = {
            "anyOf": [{"type": "string"}, {"type": "array"}],
            "description": description,
        }
    for kind in ("Source", "Benchmark"):
        kinds[kind]["required"] = [
            "name"
        ]  # an entry may change the entry of the table with the same name
    kinds["Data"]["properties"]["sources"]["items"] = _entries("Source", [BUILTIN, PAPER, *SOURCES])
    kinds["Evaluation"]["properties"]["benchmarks"]["items"] = _entries(
        "Benchmark", [BUILTIN, *BENCHMARKS]
    )
    sizes = {"$ref": "#/$defs/DreamerConfig"}
    kinds["Models"]["properties"]["dreamer"] |= sizes
    kinds["Variant"]["properties"]["overrides"] |= sizes
    kinds["Training"]["properties"]["betas"] = BETAS
    kinds["Variant"]["properties"]["training"] |= {
        "properties": _recipe_of_variant(kinds["Training"]["properties"]),
        "additionalProperties": False,
    }
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _recipe_of_variant(training: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of `training` that a variant may set itself."""
    own = {"betas", *TrainingConfig.__dataclass_fields__} - {*OF_ALL}
    recipe = {name: field for name, field in training.items() if name in own}
    times = {
        "type": "object",
        "required": ["times", "of"],
        "properties": {"times": {}, "of": {"type": "string"}},
    }
    recipe["learning_rate"] = {"anyOf": [recipe["learning_rate"], times]}
    return recipe


def _entries(kind: str, names: Iterable[str]) -> dict[str, Any]:
    return {"anyOf": [{"enum": list(names)}, {"$ref": f"#/$defs/{kind}"}]}
