"""The section `evaluation` of a study file: benchmarks, and scores fixed in advance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from dreamer_study.flows.study.data_section import BUILTIN
from dreamer_study.model.evaluation.job import INTROSPECTION, EvaluationSettings
from dreamer_study.pipeline.benchmarks.table import resolve_benchmark
from dreamer_study.pipeline.settings import Section, distinct, settings_section
from dreamer_study.pipeline.tokens.validation import TUNING, VALIDATION
from dreamer_study.pipeline.worlds.tasks import WORLD_BENCHMARKS
from dreamer_study.sql.names import AVERAGE

TAKEN = {  # names that the results use in place of a benchmark
    AVERAGE: "the average over benchmarks",
    VALIDATION: "the documents held out of training",
    TUNING: "the documents that settings are chosen on",
    INTROSPECTION: "the observations of a model's attention and experts",
}


def benchmark_names(entries: Sequence[str | dict[str, Any]]) -> list[str]:
    """Return the names of the benchmarks that the entries of a study stand for."""
    names: list[str] = []
    for entry in entries:
        if entry == BUILTIN:
            names += WORLD_BENCHMARKS
        else:
            names.append(resolve_benchmark(entry).name)
    return names


class Target(Section):
    """A score of a task, fixed in advance, at which the tokens of the models are compared."""

    task: str = Field(description="A benchmark, 'average' or 'validation'.")
    metric: Literal["accuracy", "loss"] = Field(
        "accuracy", description="Whether the score is an accuracy or a loss."
    )
    score: float = Field(gt=0, description="An accuracy below 1, or a loss in bits per byte.")

    @model_validator(mode="after")
    def _accuracy_below_one(self) -> Target:
        if self.metric == "accuracy" and self.score >= 1:
            raise ValueError(f"score is {self.score:g}, but an accuracy is below 1")
        return self


class Evaluation(settings_section(EvaluationSettings)):
    """The benchmarks that every checkpoint is evaluated on, and how it is evaluated."""

    benchmarks: list[str | dict[str, Any]] = Field(
        min_length=1,
        description="'builtin', names that `dreamer sources` lists, or your own benchmarks.",
    )
    introspect: bool = Field(
        True, description="Observe depth attention and expert usage at every checkpoint."
    )
    bootstrap_replicates: int = Field(
        1000,
        ge=0,
        le=100_000,
        description="Resamples of the items that intervals are computed from; 0: no intervals.",
    )
    target: list[Target] = Field(
        [], description="Scores fixed in advance, at which the tokens of the models are compared."
    )

    @field_validator("benchmarks")
    @classmethod
    def _known_benchmarks(cls, entries: list[str | dict[str, Any]]) -> list[str | dict[str, Any]]:
        for name in distinct(benchmark_names(entries), "names of benchmarks"):
            if name in TAKEN:
                raise ValueError(
                    f"{name!r} is the name of {TAKEN[name]}; give the benchmark another name"
                )
        # what is built in is published with its answers
        own = benchmark_names([entry for entry in entries if entry != BUILTIN])
        for name in own:
            if name in WORLD_BENCHMARKS:
                raise ValueError(
                    f"{name!r} is the name of a built-in benchmark; give the benchmark another name"
                )
        return entries
