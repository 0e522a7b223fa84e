"""Plan a study: everything that follows from the study and from what has been decided so far.

A plan knows every data output, model, run, checkpoint and evaluation with its key and folder, and
whether it is done. A plan reads files, and writes only texts of benchmarks and digests of large
files. `dreamer run`, `plan`, `status`, `verify`, `clean` and `checkpoints` ask the plan.

What is known only after work is a decision: the vocabulary (in the manifest of the tokenizer), the
learning rates that a search has chosen (`best_rates`), which seed of a race is trained to the end
(`choose_seed`), and whether a study has seeds enough (`wants_seeds`). A plan that is asked again
after a decision knows what follows from it.

The plan in parts: `data_plan.py` (outputs of curation), `model_plan.py` (sizes of models),
`runs.py` (a run and its checkpoints), `evaluation_plan.py` (tasks and evaluations).
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from dreamer_study.flows.plan.data_plan import VERSIONS, plain
from dreamer_study.flows.plan.elsewhere import (
    Origin,
    check_origin,
    read_origins,
    settings_as_inputs,
)
from dreamer_study.flows.plan.evaluation_plan import Evaluation, PlannedEvaluations
from dreamer_study.flows.plan.model_plan import Answer, PlannedModel, Sizing, plan_models, size
from dreamer_study.flows.plan.runs import FAILURE, Checkpoint, Run
from dreamer_study.flows.study.configuration import Study
from dreamer_study.model.accounting import Resources
from dreamer_study.model.architectures.code import digests
from dreamer_study.model.module_config import read_architecture
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
from dreamer_study.pipeline.storage.digests import digest
from dreamer_study.pipeline.storage.integrity import check, read_manifest, read_sealed
from dreamer_study.pipeline.tokens.validation import TUNING
from dreamer_study.sql.statistics.sequential import looks_until

# Who asks a plan imports its nouns from here.
__all__ = ["FAILURE", "Checkpoint", "Evaluation", "Plan", "Run", "Unsized"]


class Unsized(InputError):
    """The sizes and costs of a model are not known yet: only running its code tells."""

    def __init__(self, sizing: Sizing) -> None:
        super().__init__(f"{sizing.name} has not been sized yet; `dreamer run` does")
        self.sizing = sizing


class Plan(PlannedEvaluations):
    """Everything that follows from a study and the decisions made so far.

    What is decided does not change any more, so it is kept once it is known.
    """

    def __init__(self, study: Study) -> None:
        super().__init__(study)
        self._runs_by_model: list[list[Run]] = []  # empty until learning rates are decided
        self._chosen_rates: list[dict[str, Any]] = []
        self._trials: dict[tuple[Any, ...], Run] = {}  # runs of the search that were described
        self._measured: set[str] = set()  # runs of the search that are trained and evaluated
        self._losses: dict[str, float | None] = {}  # of these runs, once each was read
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

    def _answer(self, sizing: Sizing) -> Answer:
        """Answer a sizing: by formulas, or from its decision where only running a model tells."""
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

    @property
    def described(self) -> bool:
        """Whether all trainings are known.

        Items of late benchmarks may still be looked for in the data. Until then not all evaluations
        are known, and by these a study with `seeds_until` decides whether seeds are added.
        """
        data_suffice = self.trainable and (self.prepared or not self.study.training.seeds_until)
        return data_suffice and self.unsized is None

    # --- runs ---

    @property
    def runs(self) -> list[Run]:
        """The runs of the study: model by model, seed by seed.

        Which seeds are trained to the end is in them as far as it is decided. There are none while
        learning rates are searched for (`tuning_runs`).
        """
        return [
            run
            for number, seeds_of_model in enumerate(self._described)
            for run in self._runs_of(number, seeds_of_model)
        ]

    def _runs_of(self, model_number: int, seeds_of_model: list[Run]) -> list[Run]:
        """Return the runs of one model with goal, status and priority, by what is decided."""
        training = self.study.training
        race_ends = training.stop_at(len(seeds_of_model))
        has_own_seeds = self.study.variant(seeds_of_model[0].model.variant).seeds
        if training.seeds_until and not has_own_seeds:
            seeds_of_model = seeds_of_model[: self.look]
        winner = None  # also while that is not decided
        finished: Sequence[str] = ()
        if race_ends:
            decision = self.decision(seeds_of_model)
            if decision.exists():
                decided = read_sealed(decision)
                winner = decided["seed"]
                finished = decided.get("finished", ())

        runs = []
        for seed_number, run in enumerate(seeds_of_model):
            if race_ends is None or run.seed == winner:
                status = "chosen"
                goal = training.tokens
            else:
                status = "racing" if winner is None else "screened"
                goal = race_ends
            # Seeds in turn, of each seed the slowest model first: every model soon has a curve to
            # compare.
            priority = (1, seed_number, -model_number)
            runs.append(
                dataclasses.replace(
                    run,
                    goal=goal,
                    status=status,
                    priority=priority,
                    is_gone=status == "screened" and run.run_id in finished and run.tokens < goal,
                )
            )
        return runs

    @property
    def _described(self) -> list[list[Run]]:
        """The runs of each model, without what is decided later."""
        if not self._runs_by_model and not self.tuning_runs:
            points = self.study.training.points
            for model in self.models:
                settings = self._settings(model)
                seeds = self.study.seeds_of(model.variant)
                self._runs_by_model.append(
                    [self._describe(model, seed, settings, points) for seed in seeds]
                )
        return self._runs_by_model

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
            settings = self._settings(other)
            not_own = self.study.searched(model.variant, also_of_a_multiple=True)
            settings = {name: value for name, value in settings.items() if name in not_own}
            return {
                **settings,
                "learning_rate": own["times"] * self._settings(other)["learning_rate"],
            }
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
        """The rows of the search once settings are chosen; none before."""
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
        self._runs_by_model = []

    def is_untuned(self, model: PlannedModel) -> bool:
        """Tell whether the search has found no settings for a model, as its trainings failed."""
        own = self.study.variant(model.variant).training.get("learning_rate")
        variant = own["of"] if isinstance(own, Mapping) else model.variant
        rows = [
            row for row in self.search if (row["variant"], row["depth"]) == (variant, model.depth)
        ]
        return bool(rows) and not any(row["chosen"] for row in rows)

    # --- races and the number of seeds ---

    def decision(self, runs: Sequence[Run]) -> Path:
        """Return the file of the decision which of a model's seeds has won the race."""
        return self._decision_on({"race": self.study.training.stop_at(len(runs))}, runs)

    @property
    def undecided(self) -> list[list[Run]]:
        """The races in which no seed is chosen, and all runs have ended or failed."""
        races = [self._runs_of(number, runs) for number, runs in enumerate(self._described)]
        return [
            runs
            for runs in races
            if all(run.status == "racing" and (run.done or run.failure) for run in runs)
            and any(run.done for run in runs)
        ]

    @property
    def look(self) -> int:
        """The seeds of each model at the first look that has not decided to add more.

        Looks come at fixed numbers of seeds (`seeds_until`).
        """
        looks = looks_until(self.study.training.seeds_until.most)
        for seeds in looks:
            decision = self.look_decision(seeds)
            if not decision.exists() or not read_sealed(decision)["go_on"]:
                return seeds
        return looks[-1]

    def look_decision(self, seeds: int) -> Path:
        """Return the file of the decision whether models with `seeds` trained seeds get more."""
        until = self.study.training.seeds_until
        runs = [run for seeds_of_model in self._described for run in seeds_of_model[:seeds]]
        content = {
            "seeds_until": until.high_over_low,
            "seeds": seeds,
            "benchmarks": self.decisive,
            "evaluation": self.study.evaluation.model_dump(),
        }
        return self._decision_on(plain(content), runs)

    @property
    def wants_seeds(self) -> bool:
        """Whether the decision to add seeds or to end is still to be made."""
        until = self.study.training.seeds_until
        if not until:
            return False
        return self.look < until.most and not self.look_decision(self.look).exists()

    def _decision_on(self, content: Mapping[str, Any], runs: Sequence[Run]) -> Path:
        """Return the file of a decision on some content, from what these runs have found."""
        key = self.store.key(
            "decisions", VERSIONS["decisions"], content, [f"runs/{run.run_id}" for run in runs]
        )
        path = self.store.root / "decisions" / f"{key}.json"
        self._asked.add(path)
        return path

    # --- the whole ---

    @property
    def trained(self) -> bool:
        """Whether every run is trained as far as the study wants, and everything is decided."""
        if not self.described or self.tuning_runs:
            return False
        return all(
            (run.status == "screened" and not run.is_gone) or (run.status == "chosen" and run.done)
            for run in self.runs
        )

    @property
    def evaluated(self) -> bool:
        """Whether every checkpoint of a trained study is evaluated, and no seed may be added."""
        if not self.prepared or not self.trained:
            return False
        evaluations = [evaluation for run in self.runs for evaluation in self.evaluations(run)]
        return all(evaluation.done for evaluation in evaluations) and not self.wants_seeds

    def names(self) -> Iterator[str]:
        """Name all that the study uses in its store, `<stage>/<key>` each, as far as is known."""
        if self.absent:
            return
        yield from (output.name for output in self.data.outputs)
        if self.prepared and self.described:
            for run in (*self.tuning_runs, *self.runs):
                yield f"runs/{run.run_id}"
                yield from (f"evaluations/{each.key}" for each in self.evaluations(run))
            # for what is named above
            yield from (f"decisions/{path.stem}" for path in sorted(self._asked))
