"""Plan the models of a study: sized by formulas or by decisions, and those trained elsewhere.

The sizes of a model outside the bundled family are known only after its code has run. What was
found is stored in a file, as a decision. Variants that another study has trained have the costs
that were measured there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from dreamer_study.flows.plan.data_plan import VERSIONS
from dreamer_study.flows.plan.elsewhere import (
    Origin,
    check_origin,
    read_origins,
    settings_as_inputs,
)
from dreamer_study.flows.plan.evaluation_plan import PlannedEvaluations
from dreamer_study.flows.plan.model_plan import Answer, PlannedModel, Sizing, plan_models, size
from dreamer_study.flows.plan.runs import Run
from dreamer_study.flows.study.configuration import Study
from dreamer_study.model.accounting import Resources
from dreamer_study.model.module_config import read_architecture
from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.storage.digests import digest
from dreamer_study.pipeline.storage.integrity import read_manifest, read_sealed


class Unsized(InputError):
    """The sizes and costs of a model are not known yet, because the model's code has not run."""

    def __init__(self, sizing: Sizing) -> None:
        super().__init__(f"{sizing.name} has not been sized yet; `dreamer run` does")
        self.sizing = sizing


class PlannedModels(PlannedEvaluations):
    """The part of a plan that knows models and decisions; `study_plan.Plan` is the whole."""

    def __init__(self, study: Study) -> None:
        super().__init__(study)
        self._asked: set[Path] = set()  # the decisions on which the plan depends, made or not

    # --- models ---

    @cached_property
    def models(self) -> list[PlannedModel]:
        """The models, matched in FLOPs and parameters.

        Raises InputError before the tokenizer is there, or Unsized.
        """
        made = self.data.tokenizer.results
        if self.prepared:
            for origin in self.origins.values():
                check_origin(origin, self.inputs)
        costs = {name: origin.costs for name, origin in self.origins.items()}
        return plan_models(
            self.study, made["vocabulary_size"], self._answer, made["end_token"], costs
        )

    def _answer(self, sizing: Sizing) -> Answer:
        """Return the sizes and costs of a model.

        They come from formulas, or from the stored decision where the model's code has to run.
        Raises Unsized while there is no such decision.
        """
        if sizing.by_formula:
            return size(sizing)
        path = self.sizing(sizing)
        if not path.exists():
            raise Unsized(sizing)
        values = read_sealed(path)
        return read_architecture(values["model"]), Resources(**values["resources"])

    def sizing(self, sizing: Sizing) -> Path:
        """Return the file of the decision which sizes a model has, and what it costs."""
        return self._decision_on(sizing.content(), [])

    @property
    def unsized(self) -> Sizing | None:
        """The next question of sizes and costs that only running a model answers, if any."""
        try:
            _ = self.models
        except Unsized as unsized:
            return unsized.sizing
        return None

    # --- variants that other studies have trained ---

    @cached_property
    def origins(self) -> dict[str, Origin]:
        """Where the rows of variants come from that other studies have trained, by variant."""
        return read_origins(self.study)

    @property
    def inputs(self) -> dict[str, str]:
        """All that decides how curves compare: settings, and digests of data and benchmarks."""
        digests = {
            "the tokenizer": self._digest_of(self.data.tokenizer.path, "tokenizer"),
            "the packed tokens": self._digest_of(self.data.packed.path, "tokens-", "index-"),
        }
        for name, content in self.decisive.items():
            digests[f"the benchmark {name}"] = digest(content)
        return {**settings_as_inputs(self.study), **digests}

    def _digest_of(self, folder: Path, *beginnings: str) -> str:
        """Return a digest of the files of an output whose names have one of these beginnings."""
        files = read_manifest(folder)["files"]
        return digest(
            [files[name]["blake2b"] for name in sorted(files) if name.startswith(beginnings)]
        )

    # --- where decisions are stored ---

    def _decision_on(self, content: Mapping[str, Any], runs: Sequence[Run]) -> Path:
        """Return the file of a decision on some content, from what these runs have found."""
        key = self.store.key(
            "decisions", VERSIONS["decisions"], content, [f"runs/{run.run_id}" for run in runs]
        )
        path = self.store.root / "decisions" / f"{key}.json"
        self._asked.add(path)
        return path
