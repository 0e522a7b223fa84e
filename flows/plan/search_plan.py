"""Plan the search for settings: which learning rates (and what else) are tried for each model.

A trial is a short run at some values of the grid. Once all trials have ended, the settings are
chosen, which is a decision (`rates_decision`). A run is described here, too, as its settings are
those that were chosen or are tried.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from dreamer_study.flows.plan.data_plan import VERSIONS
from dreamer_study.flows.plan.model_plan import PlannedModel
from dreamer_study.flows.plan.planned_models import PlannedModels
from dreamer_study.flows.plan.runs import Run
from dreamer_study.flows.study.configuration import Study
from dreamer_study.model.architectures.code import digests
from dreamer_study.model.training.config import HOW_FAR, HOW_IT_RUNS, without_later
from dreamer_study.model.training.recipe import decay_share
from dreamer_study.model.training.search import (
    MOST_ROUNDS,
    Trials,
    Values,
    combinations,
    untried,
)
from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.storage.integrity import check, read_sealed
from dreamer_study.pipeline.tokens.validation import TUNING


class PlannedSearch(PlannedModels):
    """The part of a plan that knows the search for settings; `study_plan.Plan` is the whole."""

    def __init__(self, study: Study) -> None:
        super().__init__(study)
        self._chosen_rates: list[dict[str, Any]] = []
        self._trials: dict[tuple[Any, ...], Run] = {}  # runs of the search that were described
        self._measured: set[str] = set()  # runs of the search that are trained and evaluated
        self._losses: dict[str, float | None] = {}  # of these runs, once each was read

    # --- a run and its recipe ---

    def _describe(
        self, model: PlannedModel, seed: int, settings: Mapping[str, float], points: tuple[int, ...]
    ) -> Run:
        """Describe a run at settings that were chosen or are tried, beside its own recipe."""
        recipe = self._recipe(model, seed, settings)
        recipe |= {
            "tokens": points[-1],
            "checkpoints": list(points),
            "raw_checkpoints": self.study.evaluation.weights in ("raw", "both"),
        }
        content = {
            "variant": model.variant,
            "depth": model.depth,
            "seed": seed,
            "model": model.config.to_dict(),
            "training": recipe,
        }
        # A run that is trained further, or computed in another way, stays the same run.
        not_decisive = (*HOW_IT_RUNS, *HOW_FAR)
        decisive = {name: value for name, value in recipe.items() if name not in not_decisive}
        if recipe["schedule"] == "constant":
            del decisive["schedule"]  # runs from before there were others keep their names
        if isinstance(recipe["schedule"], Mapping):
            decisive["tokens"] = recipe["tokens"]  # by which the rate falls
        # So do those that read rows as before, where a class that knows no documents joined them.
        usual = "apart" if model.reads_documents else "joined"
        if recipe["documents"] == usual:
            del decisive["documents"]
        identity = {**content, "training": decisive}
        key = self.store.key("runs", VERSIONS["runs"], identity, [self.data.packed.name])
        run_id = f"{model.model_id}-s{seed}-{key[:8]}"
        folder = self.store.root / "runs" / run_id
        return Run(run_id, folder, model, seed, content, points, points[-1], "chosen", ())

    def _recipe(
        self, model: PlannedModel, seed: int, settings: Mapping[str, float]
    ) -> dict[str, Any]:
        """Return the recipe of a model's run at some settings."""
        variant = self.study.variant(model.variant)
        recipe = {**self.study.training.recipe(seed), **variant.training}
        values = dict(settings)
        share = values.pop("decay", None)
        recipe |= values
        if share is not None:
            recipe["schedule"] = {**recipe["schedule"], "decay": share}
        files = self.study.optimizer_files(variant.name)
        if files:
            recipe["optimizer_files"] = digests(self.study.place, files)
        return without_later(recipe)

    # --- the search for settings ---

    def _settings(self, model: PlannedModel) -> dict[str, float]:
        """Return the learning rate of a model, and what else the search has chosen for it.

        The rate is its own, a multiple of another's, the one that was chosen, or that of all.
        """
        own = self.study.variant(model.variant).training.get("learning_rate")
        if isinstance(own, Mapping):
            other = next(
                other
                for other in self.models
                if (other.variant, other.depth) == (own["of"], model.depth)
            )
            of_other = self._settings(other)
            not_own = self.study.searched(model.variant, also_of_a_multiple=True)
            settings = {name: value for name, value in of_other.items() if name in not_own}
            return {**settings, "learning_rate": own["times"] * of_other["learning_rate"]}
        settings = {"learning_rate": own or self.study.training.learning_rate}
        for row in self.search:
            if row["chosen"] and (row["variant"], row["depth"]) == (model.variant, model.depth):
                settings |= {name: row[name] for name in self.study.searched(model.variant)}
        return settings

    @property
    def tuning_runs(self) -> list[Run]:
        """The runs of the search for settings, as far as they are known.

        There are none once the settings are chosen.
        """
        tune = self.study.training.tune
        if not tune or self.search:
            return []
        trials = self._first_trials
        runs = self._search(trials)
        for _ in range(MOST_ROUNDS):
            ended = self._searched_to_the_end(runs)
            further = untried({model: trials[model] for model in ended}, self.searched(runs))
            trials = {model: [*tried, *further.get(model, [])] for model, tried in trials.items()}
            known = {run.run_id for run in runs}
            new_runs = [run for run in self._search(trials) if run.run_id not in known]
            if not new_runs:
                break
            runs += new_runs
        return runs

    @property
    def _first_trials(self) -> dict[tuple[str, int], Trials]:
        """Every combination of the values that the study file names, of each model searched."""
        grids = self.study.training.tune.grids
        return {
            (model.variant, model.depth): combinations({name: grids[name] for name in searched})
            for model in self.models
            if (searched := self.study.searched(model.variant))
        }

    def _searched_to_the_end(self, runs: Sequence[Run]) -> list[tuple[str, int]]:
        """Return the models all of whose runs of the search have ended."""
        of_model = defaultdict(list)
        for run in runs:
            of_model[run.model.variant, run.model.depth].append(run)
        return [model for model, runs in of_model.items() if self.search_ended(runs)]

    def _search(self, trials: Mapping[tuple[str, int], Trials]) -> list[Run]:
        """Describe the runs of the search: each trial of each model, with each seed."""
        tune = self.study.training.tune
        if not self.data.packed.results[TUNING]:
            raise InputError(
                "training.tune: too few documents to hold some out (data.tuning); give at least 50"
            )
        tuned = [model for model in self.models if (model.variant, model.depth) in trials]
        runs = []
        for model_number, model in enumerate(tuned):
            of_model = itertools.product(trials[model.variant, model.depth], tune.seeds)
            for number, (values, seed) in enumerate(of_model):
                run = self._trial(model, seed, values)
                runs.append(dataclasses.replace(run, priority=(1, number, -model_number)))
        return runs

    def _trial(self, model: PlannedModel, seed: int, values: Values) -> Run:
        """Describe a run of the search at some of its values."""
        key = (model.variant, model.depth, seed, *values.items())
        if key not in self._trials:
            of_all = {"learning_rate": self.study.rate_of_all(model.variant)}
            settings = {**of_all, **values, "branches": 0.0}
            run = self._describe(model, seed, settings, (self.study.training.tune.tokens,))
            self._trials[key] = dataclasses.replace(run, status="tuning", searched=values)
        return self._trials[key]

    def search_ended(self, runs: Sequence[Run]) -> bool:
        """Check that each of these runs of the search has failed, or is trained and evaluated."""
        return all(self.is_measured(run) or run.failure for run in runs)

    def is_measured(self, run: Run) -> bool:
        """Check that a run of the search is trained and evaluated, which it stays.

        A search is asked after each of its jobs, so a run that is measured is not looked at again.
        """
        if run.run_id in self._measured:
            return True
        if not run.done or not all(evaluation.done for evaluation in self.evaluations(run)):
            return False
        self._measured.add(run.run_id)
        return True

    def searched(self, runs: Sequence[Run]) -> list[dict[str, Any]]:
        """Make the rows of a search for these runs, before settings are chosen."""
        return [
            {
                "variant": run.model.variant,
                "depth": run.model.depth,
                **run.settings,
                "seed": run.seed,
                "tokens": run.goal,
                "loss": self._tuning_loss(run),
                "chosen": False,
            }
            for run in runs
        ]

    def _tuning_loss(self, run: Run) -> float | None:
        """Read the loss of a run of the search on the tuning split; None without one."""
        if run.failure:
            return None
        if run.run_id in self._losses:
            return self._losses[run.run_id]
        folders = [evaluation.folder for evaluation in self.evaluations(run) if evaluation.done]
        if not folders:
            return None
        check(folders[0])
        rows = pq.read_table(folders[0] / "evaluations.parquet").to_pylist()
        losses = [row["value"] for row in rows if row["metric"] == "bits_per_byte"]
        self._losses[run.run_id] = losses[0] if losses else None
        return self._losses[run.run_id]

    @property
    def rates_decision(self) -> Path:
        """The file of the decision which settings the search has chosen."""
        tune = self.study.training.tune
        configuration = {
            "tune": tune.model_dump(exclude_none=True),
            "weights": self.study.weights_of_search,
        }
        return self._decision_on(configuration, self._search(self._first_trials))

    @property
    def search(self) -> list[dict[str, Any]]:
        """One row for each training of the search; an empty list until settings are chosen."""
        if self.study.training.tune and not self._chosen_rates:
            decision = self.rates_decision
            if decision.exists():
                rows = read_sealed(decision)["rows"]
                self._chosen_rates = [{**self._unsearched(row), **row} for row in rows]
        return self._chosen_rates

    def _unsearched(self, row: Mapping[str, Any]) -> dict[str, float]:
        """Return the settings that a row of a search of rates alone does not name."""
        recipe = self.study.training.recipe(0) | self.study.variant(row["variant"]).training
        return {
            "weight_decay": recipe["weight_decay"],
            "decay": decay_share(recipe["schedule"]),
        }

    def forget_search(self) -> None:
        """Forget which settings were chosen, so that they are chosen again."""
        self.rates_decision.unlink(missing_ok=True)
        self._chosen_rates = []

    def is_untuned(self, model: PlannedModel) -> bool:
        """Tell whether the search has found no settings for a model, as its trainings failed."""
        own = self.study.variant(model.variant).training.get("learning_rate")
        variant = own["of"] if isinstance(own, Mapping) else model.variant
        rows = [
            row for row in self.search if (row["variant"], row["depth"]) == (variant, model.depth)
        ]
        return bool(rows) and not any(row["chosen"] for row in rows)
